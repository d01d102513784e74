"""`parallel: auto` for random jobs and machines: what a person may count on, whatever is chosen.

What `winner` leaves out cannot win; the chosen plan is accepted, fits and is the same where a recipe names it; no plan
is better by the search's own order; and what DC590 proposes makes a plan fit.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from dcompile.facts.resolve import resolve
from dcompile.plan.auto import no_fit
from dcompile.plan.auto.choose import choose
from dcompile.plan.auto.ladders import Job, Ladder, Step
from dcompile.plan.auto.rank import ALIKE
from dcompile.plan.auto.winner import winner
from dcompile.plan.build import build_plan
from dcompile.recipe.model import Recipe
from dcompile.rules.check import check
from dcompile.rules.rule import subject_of

MODELS = (
    "black-forest-labs/FLUX.1-dev",
    "black-forest-labs/FLUX.2-dev",
    "Qwen/Qwen-Image",
    "Wan-AI/Wan2.1-T2V-14B-Diffusers",
    "stabilityai/stable-diffusion-xl-base-1.0",
    "stabilityai/stable-diffusion-3.5-large",
    "genmo/mochi-1-preview",
    "zai-org/CogVideoX-2b",
)
CARDS = ("l4", "rtx-4090", "rtx-5090", "l40s", "a100-sxm-40gb", "h100-sxm-80gb", "mi300x")
FORBID = ((), (), ("offload",), ("tensor", "context"), ("device_map",), ("data", "offload"))


def job(random: Random) -> dict[str, object]:
    """A recipe that asks for `auto`."""
    devices: dict[str, object] = {"gpu": random.choice(CARDS), "per_node": random.choice((1, 2, 3, 4, 8))}
    if random.random() < 0.2:
        kinds = random.sample(CARDS[:6], 2)
        devices = {"gpus": tuple(random.choice(kinds) for _ in range(random.choice((2, 3, 4))))}
    elif random.random() < 0.3:
        devices |= {"nodes": random.choice((2, 8)), "per_node": 8}
    elif random.random() < 0.2:
        devices = {"kind": "cuda", "memory": random.choice(("16GiB", "48GiB")), "per_node": random.choice((1, 4))}
    side = random.choice((512, 1024, 2048))
    rows = tuple(f"a fox {row}" for row in range(random.choice((1, 1, 3, 16, 64))))
    return {
        "version": 1,
        "model": {"id": random.choice(MODELS), "dtype": random.choice(("bfloat16", "bfloat16", "float32"))},
        "devices": devices,
        "parallel": {"auto": {"forbid": random.choice(FORBID)}},
        "run": {"prompts": rows, "height": side, "width": side, "seed": 1, "batch": random.choice((1, 1, 2))},
    }


@pytest.mark.parametrize("seed", range(40))
def test_the_winner_is_the_one_of_all_candidates(seed: int) -> None:
    recipe = Recipe.model_validate(job(Random(seed)))
    facts, _ = resolve(recipe, Path())
    assert facts is not None
    choice, _ = choose(recipe, facts, lambda _: False, look_further=False)
    found = winner(recipe, facts)
    assert (choice is None) == (found is None)
    if choice is not None and found is not None:
        assert found.candidate == choice.winner.candidate
        assert found.seconds == choice.winner.seconds


@pytest.mark.parametrize("seed", range(40, 80))
def test_the_chosen_plan_fits_and_is_that_of_a_recipe_which_names_it(seed: int) -> None:
    recipe = Recipe.model_validate(job(Random(seed)))
    facts, _ = resolve(recipe, Path())
    assert facts is not None
    choice, _ = choose(recipe, facts, lambda _: False, look_further=False)
    if choice is None:
        return
    chosen = choice.winner
    for one in choice.judged:
        if one.checked is not None and not one.warns and not one.is_last_resort:
            assert not chosen.warns
            assert chosen.time <= one.time * (1 + ALIKE) * (1 + 1e-9)
    named = chosen.subject.recipe
    facts = replace(facts, devices=chosen.subject.facts.devices)
    checked, found = check(subject_of(named, facts))
    assert checked is not None, found
    plans = [build_plan(one, named) for one in (choice.checked, checked)]
    assert plans[0].loads == plans[1].loads
    assert plans[0].estimate == plans[1].estimate
    for load in plans[0].loads:
        assert load.room_bytes is None or load.need_bytes <= load.room_bytes


@pytest.mark.parametrize("seed", range(80, 92))
def test_what_is_proposed_makes_a_plan_fit(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step of a ladder that the search found, applied to the job that it was found for."""
    random = Random(seed)
    small = {"gpu": random.choice(("l4", "rtx-4090")), "per_node": random.choice((1, 2, 3))}
    text = job(random) | {"devices": small, "parallel": {"auto": {"forbid": random.choice(FORBID)}}}
    text["run"] = {"prompts": ("a", "b"), "height": 2048, "width": 2048, "seed": 1, "batch": random.choice((1, 2, 8))}
    recipe = Recipe.model_validate(text)
    facts, _ = resolve(recipe, Path())
    assert facts is not None
    steps: list[tuple[Step, Job]] = []
    real = no_fit._Search.first

    def first(search: Any, ladder: Ladder, base: Job) -> tuple[Step, str] | None:
        found = real(search, ladder, base)
        if found is not None:
            steps.append((found[0], base))
        return found

    monkeypatch.setattr(no_fit._Search, "first", first)
    choice, _ = choose(recipe, facts, lambda _: False)
    assert choice is None or not steps
    for step, base in steps:
        changed = step.apply(base)
        assert winner(changed.recipe, changed.facts) is not None, step.text
