"""`dcompile probe` on this machine's processor: ranks over gloo, a file that a recipe can name, and a time limit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from dcompile.cli.main import main
from dcompile.driver import compile_recipe
from dcompile.machine.collective_worker import degrees
from dcompile.machine.collectives import measure_collectives
from dcompile.runtime.errors import RunError

QUICKSTART = Path(__file__).parents[2] / "recipes" / "quickstart.yaml"


@pytest.mark.slow
def test_this_machine_is_measured_and_a_recipe_is_estimated_by_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["probe", str(QUICKSTART), "--kind", "cpu", "--ranks", "2", "--seconds", "30", "--format", "json"]) == 0
    shown = capfd.readouterr()
    document = json.loads(shown.out)
    measured = document["devices"]["measured"]
    assert measured["dtype"] == "float32"  # the recipe's
    (speed,) = measured["speeds"]
    assert all(value > 0 for value in speed.values())
    assert speed["matmul_flops_per_second"] > 1e8
    points = {(point["operation"], point["ranks"]) for point in measured["collectives"]}
    assert points == {("all_reduce", 2), ("all_gather", 2), ("all_to_all", 2)}
    assert document["missing"] == []
    assert "all_reduce of 2 ranks" in shown.err
    assert [file.name for file in tmp_path.iterdir()] == ["machine.yaml"]

    devices = "devices=machine.yaml"
    two = compile_recipe(QUICKSTART, [devices, "devices.per_node=2", "parallel={context: {ulysses: 2}}"])
    assert two.plan_json is not None, two.diagnostics
    assert two.plan_json["estimate"]["communication_seconds"] > 0
    said = {one["what"]: one["chosen"] for one in two.plan_json["decisions"]}
    assert (said["estimate.speeds"], said["estimate.collectives"]) == ("as measured", "as measured")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an accelerator")
def test_accelerators_are_measured(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", "--output", str(tmp_path / "machine.yaml"), "--format", "json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert document["missing"] == []
    section = document["devices"]
    assert all(1e12 < speed["matmul_flops_per_second"] < 1e16 for speed in section["measured"]["speeds"])
    count = torch.cuda.device_count()
    assert section["per_node"] == count
    assert bool(section["measured"].get("collectives")) == (count > 1)
    found = compile_recipe(QUICKSTART, [f"devices={json.dumps(section)}", "parallel={}", "model.dtype=bfloat16"])
    assert found.plan_json is not None, found.diagnostics
    assert found.plan_json["estimate"]["step_seconds"] > 0


@pytest.mark.slow
def test_ranks_that_stand_still_are_ended() -> None:
    with pytest.raises(RunError, match="stood still"):
        measure_collectives("cpu", 2, 0.01)


@pytest.mark.parametrize(("world", "tried"), [(2, [2]), (3, [3]), (4, [2, 4]), (6, [2, 6]), (8, [2, 4, 8])])
def test_groups_of_neighbours_fill_the_machine(world: int, tried: list[int]) -> None:
    assert degrees(world) == tried
