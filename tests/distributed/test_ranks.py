"""What a rank decides before it loads anything: its devices, its mesh, its rows; and its attention backends."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tiny_models as tiny
import torch
import torch.distributed as dist
from dcompile.layout.attention import Use, legal_backends
from dcompile.layout.splits import Split
from dcompile.runtime import attention, generate, library, ranks, these_devices
from dcompile.runtime.errors import RunError
from dcompile.runtime.load import load_pipeline
from torch.testing._internal.distributed.fake_pg import FakeStore


@pytest.fixture
def eight_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that says it has eight CUDA devices."""
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 8)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))


@pytest.fixture
def eight_ranks() -> Iterator[None]:
    """This process as rank 5 of 8, without the others."""
    dist.init_process_group("fake", rank=5, world_size=8, store=FakeStore())
    yield
    dist.destroy_process_group()


def program(**given: Any) -> dict[str, Any]:
    return {"device_kind": "cuda", "devices_per_rank": 1, "device_ids": None, "ranks": 4, "ranks_per_node": 4, **given}


@pytest.mark.usefixtures("eight_gpus")
@pytest.mark.parametrize(
    ("given", "local_rank", "numbers"),
    [
        ({}, 0, [0]),
        ({}, 3, [3]),
        ({"device_ids": [2, 3, 6, 7]}, 2, [6]),
        ({"devices_per_rank": 2}, 0, [0, 1]),
        ({"devices_per_rank": 2}, 3, [6, 7]),
    ],
)
def test_devices_go_by_local_rank_and_are_nobody_elses(
    given: dict[str, Any], local_rank: int, numbers: list[int]
) -> None:
    assert [device.index for device in ranks._devices(program(**given), local_rank)] == numbers


@pytest.mark.usefixtures("eight_gpus")
def test_no_two_ranks_share_a_device() -> None:
    with pytest.raises(RunError, match=r"local rank 4 needs 2 cuda device\(s\) from number 8 on, .* has 8"):
        ranks._devices(program(devices_per_rank=2), 4)


def test_a_machine_without_the_plans_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: None)
    with pytest.raises(RunError, match="made for cuda devices, and torch finds none"):
        ranks._devices(program(), 0)


def test_a_rank_compares_its_devices_before_it_loads_anything(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A box of two kinds, of which CUDA numbers the faster one first."""
    box = [SimpleNamespace(name=name, total_memory=2**30 * size) for name, size in (("NVIDIA A", 80), ("NVIDIA B", 24))]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(box))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda number: box[number])
    device = {"memory_bytes": 24 * 2**30, "weight_bytes": 2**30, "activation_bytes": 0, "reserve_bytes": 2**30}
    names = [["NVIDIA B"], ["NVIDIA A"]]
    plan = {"program": program(ranks_per_node=2, device_names=names), "devices": [device, device]}
    with pytest.raises(RunError, match=r"cuda:1 is NVIDIA B with 24\.00 GiB, and the plan was made for NVIDIA A"):
        these_devices.check(plan, 1)
    plan["program"]["device_names"] = [["NVIDIA A"], ["NVIDIA C"]]
    these_devices.check(plan, 0)
    assert capsys.readouterr().err == ""
    these_devices.check(plan, 1)
    assert "cuda:1 is NVIDIA B with 24.00 GiB, and the plan was made for NVIDIA C" in capsys.readouterr().err
    box[1].total_memory = 2**30
    with pytest.raises(RunError, match=r"of which it needs 2\.00 GiB"):
        these_devices.check(plan, 1)


def test_each_kind_of_device_has_its_process_group() -> None:
    assert ranks.BACKENDS == {"cpu": "gloo", "cuda": "cpu:gloo,cuda:nccl", "xpu": "cpu:gloo,xpu:xccl"}


@pytest.mark.usefixtures("eight_ranks")
@pytest.mark.parametrize(
    ("axes", "names", "sizes"),
    [
        ({"ulysses": 8}, ("ring", "ulysses"), (1, 8)),
        ({"ring": 8}, ("ring", "ulysses"), (8, 1)),
        ({"ring": 2, "ulysses": 4}, ("ring", "ulysses"), (2, 4)),
        ({"data": 4, "ulysses": 2}, ("data", "ring", "ulysses"), (4, 1, 2)),
        ({"data": 4, "tensor": 2}, ("data", "tensor"), (4, 2)),
    ],
)
def test_the_mesh_has_both_context_axes_and_their_degrees(
    axes: dict[str, int], names: tuple[str, ...], sizes: tuple[int, ...]
) -> None:
    mesh = ranks.build_mesh("cpu", axes)
    assert (mesh.mesh_dim_names, tuple(mesh.shape)) == (names, sizes)
    if axes.get("data") == 4:
        assert mesh["data"].get_local_rank() == 5 // 2


def test_the_ranks_of_a_replica_make_the_same_rows() -> None:
    made = tiny.plan("flux", axes={"data": 2, "ulysses": 2}, rows=5)["program"]
    rows = [
        [
            row["index"]
            for row in generate.own_rows(
                made, ranks.Ranks(rank=rank, world=4, data_degree=2, data_coordinate=rank // 2)
            )
        ]
        for rank in range(4)
    ]
    assert rows == [[0, 1, 2], [0, 1, 2], [3, 4], [3, 4]]


def test_every_processor_has_its_backend_whatever_the_process_says(root: Path, tmp_path: Path) -> None:
    from diffusers import attention_backend
    from diffusers.models import attention_dispatch

    made = tiny.plan("flux", components={"transformer": {"attention": "_native_math"}})
    pipeline = load_pipeline(made, root, ranks.Ranks())
    processors = library.processors(pipeline.transformer)
    assert {library.backend_of(processor) for processor in processors} == {"_native_math"}
    assert attention_dispatch._AttentionBackendRegistry.get_active_backend()[0].value == "native"
    with attention_backend("flex"):
        assert {library.backend_of(processor) for processor in processors} == {"_native_math"}


def test_every_backend_that_is_legal_on_a_cpu_runs_there(root: Path) -> None:
    made: dict[str, torch.Tensor] = {}
    for name in legal_backends(Use("cpu", "float32", Split())):
        plan = tiny.plan(
            "flux", rows=1, components={"transformer": {"attention": name}}, call={"output_type": "latent"}
        )
        run = plan["program"]["run"]
        made[name] = generate.make(load_pipeline(plan, root, ranks.Ranks()), run["rows"], run["call"], "pt")[0]
    assert len(made) == 4
    for name, latents in made.items():
        assert (latents - made["native"]).abs().max().item() < 1e-4, name


def test_a_split_that_attention_does_not_take_part_in_is_refused(root: Path) -> None:
    made = tiny.plan("flux")
    pipeline = load_pipeline(made, root, ranks.Ranks())
    made["program"]["components"]["transformer"]["context"] = tiny.context_layout(ulysses=2)
    with pytest.raises(RunError, match="the attention of `transformer` does not take part in the split"):
        attention.set_backends(pipeline, made["program"])


@pytest.mark.parametrize("name", ["flash", "flash_hub", "sage", "xformers"])
def test_a_missing_package_is_found_before_anything_is_loaded(name: str, tmp_path: Path) -> None:
    made = tiny.plan("no-such-folder", components={"transformer": {"attention": name}})
    with pytest.raises(RunError, match=f"attention backend `{name}` cannot be used: .*install"):
        load_pipeline(made, tmp_path, ranks.Ranks())


def test_a_backend_that_this_diffusers_has_not() -> None:
    components = {"transformer": {"attention": "flash_9", "context": None}}
    with pytest.raises(RunError, match="has no attention backend `flash_9`"):
        attention.check_before_loading({"components": components})


def test_a_split_sequence_needs_assertions(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = {"components": {"transformer": {"attention": None, "context": None}}}
    split = {"components": {"transformer": {"attention": None, "context": tiny.context_layout(ulysses=2)}}}
    attention.check_before_loading(split)
    monkeypatch.setattr(attention, "sys", SimpleNamespace(flags=SimpleNamespace(optimize=1)))
    attention.check_before_loading(whole)
    with pytest.raises(RunError, match="needs Python's assertions"):
        attention.check_before_loading(split)


@pytest.mark.slow
def test_the_shells_optimisation_and_backend_do_not_reach_the_ranks(root: Path, tmp_path: Path) -> None:
    components = {"transformer": {"context": tiny.context_layout(ulysses=2)}}
    made = tiny.plan("flux", axes={"ulysses": 2}, rows=1, components=components, out=tmp_path / "out")
    code = (
        "import sys; from pathlib import Path; from dcompile.runtime.launch import run_plan as r; "
        "sys.exit(r(Path(sys.argv[1]), Path(sys.argv[2])))"
    )
    path = tiny.write_plan(made, tmp_path)
    environment = {**os.environ, "PYTHONOPTIMIZE": "1", "DIFFUSERS_ATTN_BACKEND": "_native_math"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(path), str(root)], env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "00000.png").is_file()
