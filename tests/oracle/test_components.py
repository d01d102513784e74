"""Which components may have a dtype of their own or be left out: the rules against every tiny pipeline."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the oracle needs the extra `run`")

from . import plain
from .ask import verdict
from .zoo import FAMILIES

pytestmark = pytest.mark.slow
ASKED = [name for name, family in FAMILIES.items() if name != "helios" and not family.is_heavy]
"""All but those that take their time, and the one of 40 blocks, whose pipeline is as Wan's."""


def recipe_of(name: str, dtype: str, own: dict[str, str]) -> dict[str, Any]:
    """One picture of a tiny pipeline, with dtypes of their own for some components."""
    tiny = FAMILIES[name]
    # Some take one length of text alone, and some have their template in it.
    length = 8 if tiny.text_length == 12 and not name.startswith("cogvideox") else tiny.text_length
    args = {**tiny.args, **({"max_sequence_length": length} if tiny.text_lengths != (None,) else {})}
    run = {"prompts": ["red apple"], "height": tiny.sizes[0][0], "width": tiny.sizes[0][1], "steps": 2, "args": args}
    if tiny.frames[0] is not None:
        run["frames"] = 1
    if tiny.images:
        run["images"] = list(tiny.images)
    return {
        "version": 1,
        "model": {"path": name, "dtype": dtype},
        "devices": {"kind": "cpu"},
        "components": {part: {"dtype": other} for part, other in own.items()},
        "run": run,
    }


@pytest.mark.parametrize("name", ASKED)
def test_the_rule_says_what_one_process_does(name: str, root: Path) -> None:
    parts = (*FAMILIES[name].denoisers, *FAMILIES[name].parts)
    cases = [
        (dtype, {part: own})
        for part, (dtype, own) in product(parts, (("float32", "bfloat16"), ("bfloat16", "float32")))
    ]
    cases.append(("float16", {"vae": "float32"}))
    wrong = []
    for dtype, own in cases:
        recipe = recipe_of(name, dtype, own)
        codes, _ = verdict(recipe, root)
        done = plain.run_recipe(recipe, root)
        if ("DC340" in codes) != (done.error is not None):
            wrong.append((dtype, own, codes, done.error))
    assert not wrong, wrong


@pytest.mark.parametrize("name", ASKED)
def test_the_rule_knows_which_encoders_are_needed(name: str, root: Path) -> None:
    wrong = []
    for part in (part for part in FAMILIES[name].parts if part not in ("vae", *FAMILIES[name].kept)):
        recipe = {**recipe_of(name, "float32", {}), "components": {part: None}}
        codes, _ = verdict(recipe, root)
        done = plain.run_recipe(recipe, root)
        if ("DC304" in codes) != (done.error is not None):
            wrong.append((part, codes, done.error))
    assert not wrong, wrong
