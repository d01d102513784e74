"""How long `dcompile check` takes: `python tests/benchmarks/check_speed.py`.

Processor time (user and system) of whole processes, in turn with what it is compared with, so that the ratio holds on
a busy machine. Two figures are aimed at: one recipe, cold, at most 2.0 times the bare imports of yaml and pydantic with
one model; and 500 recipes in one call at most 2 seconds more than one. Python's compiled files have to be there, as
they are after an installation; the first, uncounted runs make them.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
RECIPES = sorted((ROOT / "recipes").glob("*.yaml"))
ONE = ROOT / "recipes" / "flux1-dev-tensor4.yaml"
BARE = [sys.executable, "-c", "import yaml; from pydantic import create_model; create_model('A', a=(int, 1))"]
CHECK = [sys.executable, "-m", "dcompile.cli.main", "check"]
RUNS = 15
MANY = 500


def seconds(command: list[str], environment: dict[str, str]) -> float:
    """Processor seconds of one run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": f"{folder}/compiled"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        files = []
        for number in range(MANY):
            text = RECIPES[number % len(RECIPES)].read_text(encoding="utf-8")
            file = Path(folder) / f"recipe{number}.yaml"
            file.write_text(
                text.replace("quickstart_model", str(ROOT / "recipes" / "quickstart_model")), encoding="utf-8"
            )
            files.append(str(file))
        one, many = [*CHECK, str(ONE)], [*CHECK, *files]
        for command in (BARE, one, many):
            seconds(command, environment)
        pairs = [(seconds(one, environment), seconds(BARE, environment)) for _ in range(RUNS)]
        more = [seconds(many, environment) for _ in range(3)]
    single = statistics.median(a for a, _ in pairs)
    print(f"one recipe, cold      {single:.3f} s")
    print(f"yaml and pydantic     {statistics.median(b for _, b in pairs):.3f} s")
    print(f"ratio, pair by pair   {statistics.median(a / b for a, b in pairs):.2f}  (aim: 2.0)")
    print(f"{MANY} recipes take    {statistics.median(more) - single:.2f} s more  (aim: 2.0)")


if __name__ == "__main__":
    main()
