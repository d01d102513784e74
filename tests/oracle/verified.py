"""Which class was compared with one process under which strategy: `python -m tests.oracle.verified` asks and writes.

The file, `models/verified.json`, is what `dcompile models` calls verified and what a device map may cut. It holds the
plans of `test_strategies.py` that agreed; a test there compares it with that list, and every plan is run there again.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dcompile.facts.registry import MODELS, known_versions, picture_batches

from .ask import AGREED_YES, REFUSED_BUT_RUNS, ask_plan, verdict
from .spread import spread

FILE = MODELS / "verified.json"
ABOUT = (
    "Classes that tests/oracle has compared with one process, and how they were split: degrees of tensor, modes of "
    "context, devices between which the blocks lay. Pipelines that make of several prompts and input pictures in one "
    "call what they make in a call for each: with the pictures as for one prompt (shared) or one for each. Written by "
    "`python -m tests.oracle.verified`."
)
TRIES = 2
KINDS = ("tensor", "context", "cut")
Verified = dict[str, dict[str, list[int | str]]]


def strategies_of(program: dict[str, Any]) -> list[tuple[str, str, int | str]]:
    """Class, kind and degree, mode or devices of every component that a program splits."""
    found: list[tuple[str, str, int | str]] = []
    for part in program["components"].values():
        if part["omit"]:
            continue
        context = part["context"]
        if part["tensor"]:
            found.append((part["class"], "tensor", part["tensor"]["degree"]))
        if context:
            degrees = {name: context[name] for name in ("ulysses", "ring") if context[name] > 1}
            mode = " x ".join(f"{name} {degree}" for name, degree in degrees.items())
            found.append((part["class"], "context", f"{mode} uneven" if context["uneven"] else mode))
        if part["blocks"] and len(set(part["blocks"].values())) > 1:
            found.append((part["class"], "cut", len(set(part["blocks"].values()))))
    return found


def collected(strategies: Iterable[tuple[str, str, int | str]]) -> Verified:
    """Strategies by class and kind, in order."""
    found: dict[str, dict[str, set[int | str]]] = {}
    for class_name, kind, what in strategies:
        found.setdefault(class_name, {}).setdefault(kind, set()).add(what)
    return {
        class_name: {kind: sorted(kinds[kind], key=str) for kind in KINDS if kind in kinds}
        for class_name, kinds in sorted(found.items())
    }


def text_of(classes: Verified, batches: dict[str, str]) -> str:
    """The file's content."""
    content = {"about": ABOUT, "versions": known_versions(), "classes": classes, "picture_batches": batches}
    return json.dumps(content, indent=1) + "\n"


def main() -> int:
    """Asks about the plans of `test_strategies.py`, and writes down those that agree; 1 where one does not.

    What is written already, with the same libraries, is not asked again unless `--again` is given.
    """
    from .test_strategies import plans, recipe_of
    from .warm import warm
    from .zoo import save_all, wan

    parser = argparse.ArgumentParser(prog="python -m tests.oracle.verified", description=__doc__)
    parser.add_argument("--again", action="store_true", help="ask about all of them")
    again = parser.parse_args().again
    known = set() if again else _known()
    warm()
    confirmed: set[tuple[str, str, int | str]] = set()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        save_all(root)
        wan.save_from_picture(root / "wan-picture")
        batches = _batches(root, {} if again else picture_batches())
        for name, parallel in plans():
            recipe = recipe_of(name, parallel)
            codes, plan = verdict(recipe, root)
            if plan is None:
                raise ValueError(f"{name} with {parallel} cannot be asked")
            asked = set(strategies_of(spread(plan, parallel)["program"]))
            if not asked <= known and not _agrees(recipe, root, codes, plan):
                failed += 1
                continue
            confirmed |= asked
            FILE.write_text(text_of(collected(known | confirmed), batches), encoding="utf-8")
    FILE.write_text(text_of(collected(confirmed), batches), encoding="utf-8")
    return int(bool(failed))


def _batches(root: Path, known: dict[str, str]) -> dict[str, str]:
    """For each pipeline the form of the pictures with which every recipe of it can be asked for several in a call."""
    from .picture_batches import batch_recipes, form_of

    forms: dict[str, set[str | None]] = {}
    for pipeline, recipe in batch_recipes():
        forms.setdefault(pipeline, set()).add(known.get(pipeline) or form_of(recipe, root))
    return {name: form for name, (form, *others) in sorted(forms.items()) if form is not None and not others}


def _known() -> set[tuple[str, str, int | str]]:
    found = json.loads(FILE.read_text(encoding="utf-8")) if FILE.is_file() else {"versions": None}
    if found["versions"] != known_versions():
        return set()
    classes: Verified = found["classes"]
    return {(name, kind, what) for name, kinds in classes.items() for kind, of in kinds.items() for what in of}


def _agrees(recipe: dict[str, Any], root: Path, codes: tuple[str, ...], plan: dict[str, Any]) -> bool:
    """Whether a plan's pictures are those of one process; a busy machine gets a second try."""
    for _ in range(TRIES):
        finding = ask_plan(recipe, root, codes, plan)
        # A class that no plan has cut yet is refused until it is in the file.
        if finding.outcome == AGREED_YES or (finding.outcome, finding.codes) == (REFUSED_BUT_RUNS, ("DC461",)):
            return True
        print(recipe["model"]["path"], recipe["parallel"], finding.outcome, finding.codes, finding.error, flush=True)
    return False


if __name__ == "__main__":
    sys.exit(main())
