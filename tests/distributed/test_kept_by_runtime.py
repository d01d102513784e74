"""Rows that the runtime keeps: generators, empty shares, equal files on all ranks, split models that are not saved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models as tiny
import torch
import torch.distributed as dist
from dcompile.runtime import generate, ranks, tensor_parallel
from dcompile.runtime.errors import RunError
from dcompile.runtime.launch import run_plan
from dcompile.runtime.todo import todo_of
from diffusers import FluxTransformer2DModel
from torch.distributed.device_mesh import init_device_mesh


class Recorder:
    """A pipeline that only notes what it is called with, and what the global generators would give it."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    def __call__(self, prompt: Any, generator: Any, output_type: str = "pil", negative_prompt: Any = None) -> Any:
        drawn = (torch.rand(1).item(), float(np.random.rand()))
        self.calls.append({"prompt": prompt, "generator": generator, "drawn": drawn})
        count = len(prompt) if isinstance(prompt, list) else 1
        return type("Output", (), {"images": [f"picture {index}" for index in range(count)]})


def row(index: int, seed: int) -> dict[str, Any]:
    return {"index": index, "prompt": f"prompt {index}", "negative_prompt": None, "seed": seed, "args": {}}


def test_each_picture_has_its_own_generator_on_the_cpu() -> None:
    pipeline = Recorder()
    generate.make(pipeline, [row(0, 7), row(1, 8)], {}, "png")
    generate.make(pipeline, [row(1, 8)], {}, "png")
    together, alone = (call["generator"] for call in pipeline.calls)
    assert [generator.device.type for generator in (*together, alone)] == ["cpu"] * 3
    assert [generator.initial_seed() for generator in together] == [7, 8]
    assert torch.equal(torch.randn(4, generator=together[1]), torch.randn(4, generator=alone))


def test_the_global_generators_start_anew_for_every_picture() -> None:
    pipeline = Recorder()
    for _ in range(2):
        torch.rand(3)
        generate.make(pipeline, [row(0, 7)], {}, "png")
    generate.make(pipeline, [row(1, 8)], {}, "png")
    first, again, other = (call["drawn"] for call in pipeline.calls)
    assert first == again
    assert first != other


@pytest.mark.slow
def test_a_replica_without_a_row_does_no_harm(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    plan = tiny.plan("flux", axes={"data": 2}, rows=1, out=out)
    assert plan["program"]["run"]["shares"] == [[0], []]
    assert run_plan(tiny.write_plan(plan, tmp_path), root, progress="none") == 0
    assert [entry["index"] for entry in json.loads((out / "manifest.json").read_text())] == [0]
    assert sorted(file.name for file in out.iterdir()) == ["00000.png", "manifest.json"]


def test_ranks_with_other_files_do_not_begin(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = tiny.plan("flux", out=tmp_path / "out")
    own = todo_of(plan["program"], root).content
    place = ranks.Ranks()
    monkeypatch.setattr(place, "gather", lambda value: [value, "sha256:another" if value == own else value])
    with pytest.raises(RunError, match="not the same for all ranks"):
        generate.share_of(plan["program"], root, place, overwrite=False)
    assert not (tmp_path / "out").exists()


@pytest.fixture
def alone() -> Any:
    """A process group of this process only."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,), mesh_dim_names=("tensor",))
    dist.destroy_process_group()


def test_a_split_model_is_not_saved(alone: Any, root: Path, tmp_path: Path) -> None:
    model = FluxTransformer2DModel.from_pretrained(root / "flux" / "transformer")
    layout = tiny.tensor_layout(FluxTransformer2DModel, root / "flux" / "transformer", 1)
    tensor_parallel.shard_in_memory(model, layout, alone["tensor"], torch.device("cpu"))
    with pytest.raises(RunError, match="cannot be saved"):
        model.save_pretrained(tmp_path / "saved")
    assert not (tmp_path / "saved").exists()
