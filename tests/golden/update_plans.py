"""The golden plans: `plan.json` of every recipe in `recipes/`, reviewed when it changes.

    python tests/golden/update_plans.py

writes them again. That is a decision, so it refuses to run in CI. The table of split parameters, thousands of lines,
stands as its length and digest.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from dcompile.driver import compile_recipe
from dcompile.emit.plan_json import canonical_json

ROOT = Path(__file__).parents[2]
PLANS = Path(__file__).parent / "plans"
RECIPES = sorted((ROOT / "recipes").glob("*.yaml"))


def golden_text(recipe: Path) -> str:
    """What a recipe's golden file has to hold.

    Raises:
        AssertionError: where the recipe has an error.
    """
    compiled = compile_recipe(recipe)
    if compiled.plan_json is None:
        raise AssertionError(f"{recipe}: {compiled.diagnostics}")
    plan: dict[str, Any] = copy.deepcopy(compiled.plan_json)
    for component in plan["program"]["components"].values():
        if component.get("tensor"):
            table = component["tensor"]["parameters"]
            digest = hashlib.sha256(json.dumps(table).encode()).hexdigest()
            component["tensor"]["parameters"] = {"count": len(table), "sha256": digest}
    return canonical_json(plan)


def main() -> int:
    """Write every golden plan, remove those whose recipe is gone, and say which changed."""
    if os.environ.get("CI"):
        print(
            "golden plans are not updated in CI: run this on your machine, and review the difference", file=sys.stderr
        )
        return 2
    PLANS.mkdir(exist_ok=True)
    for old in PLANS.glob("*.json"):
        if old.stem not in {recipe.stem for recipe in RECIPES}:
            old.unlink()
    for recipe in RECIPES:
        file, text = PLANS / f"{recipe.stem}.json", golden_text(recipe)
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8", newline="\n")
            print(f"changed: {file.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
