"""The oracle itself: that it sees what is wrong, ends what hangs, and leaves no process behind."""

from __future__ import annotations

import copy
import os
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the oracle needs the extra `run`")

from . import plain, processes, runtime
from .ask import compare, tolerances, verdict
from .test_strategies import recipe_of

pytestmark = pytest.mark.slow


def alive(process: int) -> bool:
    return Path(f"/proc/{process}").exists()


def test_a_hang_is_a_failure_and_leaves_nothing() -> None:
    def work(rank: int) -> int:
        if rank == 1:
            time.sleep(600)
        return os.getpid()

    started = time.monotonic()
    first, second = processes.run(2, work, limit_seconds=1.0)
    assert time.monotonic() - started < 10
    assert second is processes.HUNG
    assert not alive(first.value)


def test_the_first_error_ends_the_others() -> None:
    def work(rank: int) -> None:
        if rank == 0:
            time.sleep(600)
        raise ValueError("the cause")

    started = time.monotonic()
    first, second = processes.run(2, work, limit_seconds=60.0)
    assert time.monotonic() - started < 10
    assert first is processes.ENDED
    assert second.error == "ValueError: the cause"


def difference(plan: dict[str, Any], recipe: dict[str, Any], root: Path) -> tuple[float, bool]:
    done = runtime.run_plan(plan, root)
    assert done.error is None, done.traceback
    reference = plain.run_recipe(recipe, root).ranks[0]
    return compare(done.ranks, reference, tolerances(plan, reference))


def misplaced(program: dict[str, Any]) -> None:
    """Heads 0 and 2 of four where the keys are 0 and 1."""
    parameters = program["components"]["transformer"]["tensor"]["parameters"]
    for name in parameters:
        if name.endswith(("attn.to_q.weight", "attn.to_q.bias")):
            parameters[name]["parts"] = [32, 32]


def other_seeds(program: dict[str, Any]) -> None:
    for row in program["run"]["rows"]:
        row["seed"] += 1


def one_row_less(program: dict[str, Any]) -> None:
    program["run"]["shares"][0] = program["run"]["shares"][0][:1]


@pytest.mark.parametrize("damage", [misplaced, other_seeds, one_row_less])
def test_a_wrong_plan_is_seen(damage: Any, root: Path) -> None:
    recipe = recipe_of("flux", {"tensor": 2})
    codes, plan = verdict(recipe, root)
    assert codes == ()
    assert plan is not None
    assert difference(plan, recipe, root)[1]
    wrong = copy.deepcopy(plan)
    damage(wrong["program"])
    largest, is_same = difference(wrong, recipe, root)
    assert not is_same
    assert largest > 0.01


def test_every_rank_is_looked_at(root: Path) -> None:
    recipe = recipe_of("flux", {"context": {"ulysses": 2}})
    _, plan = verdict(recipe, root)
    assert plan is not None
    done = runtime.run_plan(plan, root)
    reference = plain.run_recipe(recipe, root).ranks[0]
    assert [rank.keys() for rank in done.ranks] == [{0, 1}, {0, 1}]
    latents, output = done.ranks[1][1]
    broken = ({**done.ranks[0]}, {**done.ranks[1], 1: (latents + 1, output)})
    assert compare(done.ranks, reference, (1e-4, 1e-4))[1]
    assert not compare(broken, reference, (1e-4, 1e-4))[1]
