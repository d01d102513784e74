"""What `winner` leaves out cannot win: it finds the plan that `choose` chooses, for random jobs and machines."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from dcompile.facts.resolve import resolve
from dcompile.plan.auto.choose import choose
from dcompile.plan.auto.winner import winner
from dcompile.recipe.model import Recipe

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
