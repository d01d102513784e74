"""Every recipe of the repository compiles to its golden plan; updating one is a command of its own."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "golden" / "update_plans.py"
spec = importlib.util.spec_from_file_location("update_plans", SCRIPT)
assert spec is not None
assert spec.loader is not None
golden = importlib.util.module_from_spec(spec)
spec.loader.exec_module(golden)


@pytest.mark.parametrize("recipe", golden.RECIPES, ids=lambda recipe: recipe.stem)
def test_the_plan_is_the_golden_one(recipe: Path) -> None:
    expected = (golden.PLANS / f"{recipe.stem}.json").read_text(encoding="utf-8")
    assert golden.golden_text(recipe) == expected, f"meant? then run `python {SCRIPT.relative_to(golden.ROOT)}`"


def test_no_golden_plan_is_left_over() -> None:
    assert {file.stem for file in golden.PLANS.glob("*.json")} == {recipe.stem for recipe in golden.RECIPES}


def test_ci_does_not_update() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT)], env={**os.environ, "CI": "1"}, capture_output=True, text=True)
    assert done.returncode == 2
    assert "not updated in CI" in done.stderr
