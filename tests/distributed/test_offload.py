"""Offloaded components: where their weights are at every call, what they come and leave with, and the hooks' order.

That the pictures are those of one process, `tests/oracle/test_strategies.py` asks of every family.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import tiny_models as tiny
import torch
import torch.distributed as dist
from dcompile.runtime import generate, offload, quantize
from dcompile.runtime.errors import RunError
from dcompile.runtime.load import load_pipeline
from dcompile.runtime.logical_devices import LogicalDevices
from dcompile.runtime.ranks import join
from dcompile.runtime.tensor_parallel import placed
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor

ALL = ("text_encoder", "text_encoder_2", "transformer", "vae")
Place = frozenset[str]


def planned(*names: str, rows: int = 1) -> dict[str, Any]:
    return tiny.plan("flux", components={name: {"offload": "model"} for name in names}, rows=rows)


@contextmanager
def loaded(plan: dict[str, Any], root: Path) -> Iterator[Any]:
    """The plan's pipeline, in this process, with its devices."""
    place = join(plan["program"])
    with LogicalDevices():
        yield load_pipeline(plan, root, place)


def parts(pipeline: Any) -> dict[str, nn.Module]:
    return {name: part for name, part in pipeline.components.items() if isinstance(part, nn.Module)}


def on_device(pipeline: Any) -> Place:
    """The components whose weights and buffers are on the device. One that is there by halves is in no set."""
    found = set()
    for name, module in parts(pipeline).items():
        places = {tensor.device for tensor in (*module.parameters(), *module.buffers())}
        assert len(places) == 1, f"{name} lies on {places}"
        found |= {name} if places == {torch.device("cpu", 0)} else set()
    return frozenset(found)


def watched(pipeline: Any) -> dict[str, set[Place]]:
    """What is on the device whenever a component has been called."""
    seen: dict[str, set[Place]] = {name: set() for name in parts(pipeline)}
    for name, module in parts(pipeline).items():
        inner = module.decoder if name == "vae" else module
        inner.register_forward_hook(lambda *_, name=name: seen[name].add(on_device(pipeline)))
    return seen


def make(pipeline: Any, plan: dict[str, Any]) -> None:
    run = plan["program"]["run"]
    for row in run["rows"]:
        generate.make(pipeline, [row], run["call"], "png")


def test_each_is_on_the_device_while_it_is_called_and_no_longer(root: Path) -> None:
    plan = planned(*ALL, rows=2)
    with loaded(plan, root) as pipeline:
        assert on_device(pipeline) == frozenset()
        seen = watched(pipeline)
        make(pipeline, plan)
    assert seen == {name: {frozenset({name})} for name in ALL}


def test_what_is_not_offloaded_stays(root: Path) -> None:
    plan = planned("text_encoder", "text_encoder_2", rows=2)
    stay = frozenset({"transformer", "vae"})
    with loaded(plan, root) as pipeline:
        assert on_device(pipeline) == stay
        seen = watched(pipeline)
        make(pipeline, plan)
    assert seen == {
        "text_encoder": {stay | {"text_encoder"}},
        "text_encoder_2": {stay | {"text_encoder_2"}},
        "transformer": {stay},
        "vae": {stay},
    }


def test_a_move_that_is_missing_is_caught(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offload.Guest, "come", lambda guest: None)
    plan = planned("text_encoder_2")
    with loaded(plan, root) as pipeline, pytest.raises(RunError, match="a transfer between them is missing"):
        make(pipeline, plan)


def test_one_that_does_not_leave_is_seen(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offload.Guest, "leave", lambda guest: None)
    plan = planned(*ALL)
    with loaded(plan, root) as pipeline:
        seen = watched(pipeline)
        make(pipeline, plan)
    assert seen["vae"] == {frozenset(ALL)}


def test_the_devices_hold_what_the_plan_says(root: Path, compiled: Callable[..., Any]) -> None:
    """The weights on the device at every call against the phases of `plan.json`, to the byte."""
    text = f"""
        version: 1
        model: {{path: {root / "flux"}, dtype: float32}}
        devices: {{kind: cuda}}
        parallel: {{components: {{text_encoder_2: {{offload: model}}, transformer: {{offload: model}}}}}}
        run: {{prompts: [red apple], height: 32, width: 32, steps: 2, args: {{max_sequence_length: 8}}}}
    """
    plan = compiled(text).plan_json
    assert plan is not None
    plan["program"]["device_kind"] = "cpu"  # logical devices stand in for an accelerator
    with loaded(plan, root) as pipeline:
        seen = watched(pipeline)
        make(pipeline, plan)
        sizes = {
            name: sum(parameter.numel() * parameter.element_size() for parameter in module.parameters())
            for name, module in parts(pipeline).items()
        }
    phases = {phase["phase"]: phase for phase in plan["devices"][0]["phases"]}
    calls = {"encode": ("text_encoder", "text_encoder_2"), "denoise": ("transformer",), "decode": ("vae",)}
    for phase, names in calls.items():
        there = max((place for name in names for place in seen[name]), key=lambda place: sum(map(sizes.get, place)))
        assert sorted(there) == phases[phase]["components"]
        assert sum(sizes[name] for name in there) == phases[phase]["weight_bytes"]


class Cast(nn.Module):
    """Weights, a buffer, and a weight that two names share."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 2)
        self.second = nn.Linear(2, 2)
        self.second.weight = self.first.weight
        self.register_buffer("scale", torch.ones(2))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(inputs)) * self.scale


def test_a_shared_weight_stays_one() -> None:
    module = Cast()
    with LogicalDevices():
        guest = offload.Guest(module, torch.device("cpu", 0))
        guest.come()
        assert module.second.weight is module.first.weight
        assert {tensor.device for tensor in (*module.parameters(), *module.buffers())} == {torch.device("cpu", 0)}
        guest.leave()
        assert {tensor.device for tensor in (*module.parameters(), *module.buffers())} == {torch.device("cpu")}


def test_the_host_keeps_the_same_memory() -> None:
    """Leaving copies nothing: the weights on the host are where they were."""
    module = Cast()
    before = [tensor.data_ptr() for tensor in (*module.parameters(), *module.buffers())]
    with LogicalDevices():
        guest = offload.Guest(module, torch.device("cpu", 0))
        for _ in range(2):
            guest.come()
            guest.leave()
    assert [tensor.data_ptr() for tensor in (*module.parameters(), *module.buffers())] == before


def test_what_is_cast_while_it_is_there_is_carried_back() -> None:
    """SDXL decodes in float32 and casts its autoencoder back (`pipeline_stable_diffusion_xl.py`, `upcast_vae`)."""
    module = Cast().half()
    with LogicalDevices(), torch.inference_mode():
        guest = offload.Guest(module, torch.device("cpu", 0))
        module.float()
        guest.come()
        assert {tensor.dtype for tensor in module.parameters()} == {torch.float32}
        module.half()
        guest.leave()
        held = (*module.parameters(), *module.buffers())
        assert {(tensor.dtype, tensor.device) for tensor in held} == {(torch.float16, torch.device("cpu"))}
        guest.come()
        assert module(torch.ones(1, 2, dtype=torch.float16, device="cpu:0")).device == torch.device("cpu", 0)


def test_inputs_that_were_sent_to_the_host_follow() -> None:
    """Some pipelines send a text to where its encoder is."""
    module = Cast()
    with LogicalDevices():
        device = torch.device("cpu", 0)
        hook = offload.CallHook(offload.House(), offload.Guest(module, device), device)
        offload.add_hook_to_module(module, hook)
        assert module(torch.ones(1, 2)).device == device


def test_a_cpu_without_offload_has_no_books() -> None:
    assert not join(tiny.plan("flux")["program"]).has_logical_devices
    assert join(planned("vae")["program"]).has_logical_devices


@pytest.mark.slow
def test_the_split_is_inside_of_the_offload(root: Path, tmp_path: Path) -> None:
    """huggingface/diffusers#12533: in the other order the second call has wrong shapes. Two rows are two calls."""
    components: dict[str, Any] = {name: {"offload": "model"} for name in ALL}
    components["transformer"]["context"] = tiny.context_layout(ulysses=2)
    latents = {}
    for name, axes, own in (("split", {"ulysses": 2}, components), ("alone", {}, {})):
        plan = tiny.plan("flux", axes=axes, components=own, call={"output_type": "latent"})
        path, out = tiny.write_plan(plan, tmp_path / name), tmp_path / f"{name}.pt"
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "localhost"]
        command += ["--nproc-per-node", str(plan["program"]["ranks"])]
        command += [str(Path(__file__).with_name("latents_worker.py")), str(path), str(root), str(out)]
        done = subprocess.run(command, timeout=240, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        latents[name] = torch.load(out)
    assert (latents["split"] - latents["alone"]).abs().max().item() <= 1e-4


@pytest.fixture
def mesh() -> Iterator[DeviceMesh]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,), mesh_dim_names=("tensor",))
    dist.destroy_process_group()


def test_a_rank_rests_its_own_part(mesh: DeviceMesh) -> None:
    """A weight that is split over ranks, one that it shares with another name, and one that is whole."""
    with LogicalDevices():
        device, host = torch.device("cpu", 0), torch.device("cpu")
        module = Cast().to(device)
        split = placed(module.first.weight.detach(), mesh, 0)
        module.first.weight = module.second.weight = split
        guest = offload.Guest(module, device)
        for _ in range(2):
            assert not isinstance(module.first.weight, DTensor)
            assert {tensor.device for tensor in (*module.parameters(), *module.buffers())} == {host}
            guest.come()
            assert isinstance(module.first.weight, DTensor)
            assert module.second.weight is module.first.weight
            assert module.first.weight.placements == split.placements
            assert torch.equal(module.first.weight.to_local().cpu(), split.to_local().cpu())
            assert {tensor.device for tensor in (*module.parameters(), *module.buffers())} == {device}
            guest.leave()


@pytest.mark.parametrize("kind", ["int8wo", "float8wo"])
def test_a_quantized_weight_rests_with_all_its_tensors(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On an accelerator each of them is in pinned memory, and the weight computes what it did."""
    from torchao.quantization import quantize_

    layer = nn.Linear(32, 8)
    quantize_(layer, quantize._torchao_type(kind))
    sample = torch.randn(2, 32)
    with torch.no_grad():
        before = layer(sample)
    names, _ = layer.weight.__tensor_flatten__()
    monkeypatch.setattr(torch.Tensor, "pin_memory", torch.Tensor.clone)
    resting = quantize.at_rest(layer.weight, pinned=True)
    assert type(resting) is type(layer.weight)
    assert len(names) >= 2
    assert all(getattr(resting, name).data_ptr() != getattr(layer.weight, name).data_ptr() for name in names)
    layer._parameters["weight"] = resting
    with torch.no_grad():
        assert torch.equal(layer(sample), before)


def test_quantized_weights_come_and_leave() -> None:
    from torchao.quantization import quantize_

    module = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 8))
    quantize_(module, quantize._torchao_type("int8wo"))
    device = torch.device("cpu", 0)
    with LogicalDevices():
        guest = offload.Guest(module, device)
        rest = {name: id(one) for name, one in module.named_parameters()}
        assert {one.device for one in module.parameters()} == {torch.device("cpu")}
        with torch.inference_mode():
            guest.come()
            assert {one.device for one in module.parameters()} == {device}
            assert module(torch.randn(2, 32).to(device)).device == device
            guest.leave()
        assert {name: id(one) for name, one in module.named_parameters()} == rest
