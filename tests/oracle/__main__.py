"""The long search: `python -m tests.oracle --count 2000 --seed 0` from the repository's root; it resumes its log."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from .warm import warm

DISAGREED = ("REFUSED BUT RUNS", "ACCEPTED BUT FAILS OR DIFFERS")


def main() -> int:
    """Asks about every recipe that the log does not have yet; 0 where no outcome is a disagreement."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle", description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--families", nargs="*", help="the first eight otherwise")
    parser.add_argument("--folder", type=Path, default=Path("build/oracle"), help="tiny pipelines and the log")
    parser.add_argument("--only", type=int, nargs="*", help="numbers of recipes to ask again, with their tracebacks")
    parser.add_argument("--part", type=int, nargs=2, default=(0, 1), metavar=("I", "N"), help="every N-th, from I on")
    options = parser.parse_args()
    warm()
    from . import zoo

    names = tuple(options.families or zoo.FIRST)
    root = options.folder.resolve()
    root.mkdir(parents=True, exist_ok=True)
    zoo.save_all(root, names)
    if options.only:
        for index in options.only:
            entry = _entry(options.seed, index, names, root, None)
            print(json.dumps({**entry, "traceback": ""}, indent=1), entry["traceback"], sep="\n")
        return 0
    log = root / f"log-{options.seed}.jsonl"
    known = _read(log)
    for index in range(options.part[0], options.count, options.part[1]):
        entry = _entry(options.seed, index, names, root, known.get(index), f"recipe-{options.part[0]}")
        if entry is known.get(index):
            continue
        known[index] = entry
        with log.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(entry) + "\n")
        if entry["outcome"] in DISAGREED:
            said = [entry[key] for key in ("index", "family", "outcome", "codes", "error", "difference")]
            print(*said, "\n    ", json.dumps(entry["recipe"]), flush=True)
    return _report(_read(log))


def _read(log: Path) -> dict[int, dict[str, Any]]:
    """The last entry of each recipe."""
    if not log.is_file():
        return {}
    entries = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    return {entry["index"]: entry for entry in entries}


def _entry(
    seed: int, index: int, names: tuple[str, ...], root: Path, known: dict[str, Any] | None, name: str = "recipe"
) -> dict[str, Any]:
    """What came of one recipe; what is known holds while it agreed and neither the verdict nor the program changed."""
    from . import recipes
    from .ask import ask, digest, verdict

    family, recipe = recipes.recipe_of(seed, index, names)
    codes, plan = verdict(recipe, root, name)
    state = {"codes": list(codes), "program": digest(plan)}
    if known is not None and known["outcome"] not in DISAGREED and state.items() <= known.items():
        return known
    started = time.monotonic()
    finding = ask(recipe, root, name)
    entry = {"index": index, "family": family, **finding.as_dict(), **state, "recipe": recipe}
    return {**entry, "seconds": round(time.monotonic() - started, 2)}


def _report(known: dict[int, dict[str, Any]]) -> int:
    """Prints the counts; 1 where anything disagreed."""
    counts = Counter(entry["outcome"] for entry in known.values())
    codes = Counter(code for entry in known.values() for code in entry["codes"])
    for name, count in sorted(counts.items()):
        print(f"{count:6d}  {name}")
    print(f"{len(known):6d}  recipes; codes: {dict(sorted(codes.items()))}")
    return int(any(counts[outcome] for outcome in DISAGREED))


if __name__ == "__main__":
    sys.exit(main())
