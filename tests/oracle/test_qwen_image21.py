"""Qwen-Image 2.1's denoiser over two steps, the first of which fills its cache of keys: split and cut as whole.

Its pipeline has no tiny family: Qwen3VLProcessor needs torchvision, of which no build runs beside torch's for CPUs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the oracle needs the extra `run`")

import torch

from . import processes
from .warm import warm

pytestmark = pytest.mark.slow

SIDE, TEXT, CHANNELS = 4, 7, 8
"""A picture of 16 tokens, made from another one of 16 that stands in the text as 4 slots."""
TOLERANCE = 1e-5
"""Of the largest value: what the order of float32 sums makes of two blocks."""


def tiny() -> Any:
    """A denoiser of two blocks and four heads."""
    from diffusers import QwenImage21Transformer2DModel

    from .zoo.parts import randomise

    model = QwenImage21Transformer2DModel(
        in_channels=CHANNELS,
        out_channels=CHANNELS,
        num_layers=2,
        attention_head_dim=16,
        num_attention_heads=4,
        context_in_dim=12,
        axes_dims_rope=(4, 6, 6),
    )
    randomise(model, 0)
    return model.eval()


def steps(model: Any, batch: int, at: Any = "cpu") -> Any:
    """What the denoiser makes of one picture in two steps, as its pipeline calls it."""
    from diffusers.models.transformers.transformer_qwenimage21 import QwenImage21KVCache

    generator = torch.Generator().manual_seed(1)
    slots = torch.tensor([[False, True, True, True, True, False, False] + [True] * (SIDE**2 // 4)] * batch)
    texts = torch.randn(batch, TEXT, 12, generator=generator).to(at)
    latents, reference = (torch.randn(batch, SIDE**2, CHANNELS, generator=generator).to(at) for _ in range(2))
    cache = QwenImage21KVCache(len(model.transformer_blocks))
    for mode, time in (("extract", 0.9), ("cached", 0.4)):
        made = model(
            hidden_states=torch.cat([reference, latents], dim=1),
            encoder_hidden_states=texts,
            timestep=torch.full((batch,), time).to(at),
            img_shapes=[[(1, SIDE, SIDE), (1, SIDE, SIDE)]] * batch,
            img_mask=slots.to(at),
            kv_cache=cache,
            kv_cache_mode=mode,
            return_dict=False,
        )[0]
        latents = latents - 0.5 * made[:, -(SIDE**2) :]
    return latents


def apart(found: Any, expected: Any) -> float:
    return float((found - expected).abs().max() / expected.abs().max())


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("degree", [2, 4])
def test_split_by_its_own_plan(degree: int, batch: int, tmp_path: Path) -> None:
    warm()
    answers = processes.run(degree, lambda rank: split(rank, degree, batch, tmp_path), 120.0)
    assert [answer.error for answer in answers] == [None] * degree
    assert max(answer.value for answer in answers) < TOLERANCE


def split(rank: int, degree: int, batch: int, folder: Path) -> float:
    """Between two steps of the denoiser whole, and split over some ranks by the plan in our facts."""
    import torch.distributed as dist
    from dcompile.facts.folder import component_of_folder
    from dcompile.layout.splits import Split
    from dcompile.lower.program import tensor_layout
    from dcompile.runtime import tensor_parallel
    from torch.distributed.device_mesh import init_device_mesh

    dist.init_process_group("gloo", store=dist.FileStore(str(folder / "store"), degree), rank=rank, world_size=degree)
    mesh = init_device_mesh("cpu", (degree,), mesh_dim_names=("tensor",))
    model = tiny()
    with torch.no_grad():
        expected = steps(model, batch)
        if rank == 0:
            model.save_pretrained(folder / "model")
        dist.barrier()
        component = component_of_folder(folder / "model", "QwenImage21Transformer2DModel", "diffusers")
        layout = tensor_layout(component, Split(tensor=degree))
        tensor_parallel.shard_in_memory(model, layout, mesh["tensor"], torch.device("cpu"))
        return apart(steps(model, batch), expected)


def test_cut_between_its_blocks() -> None:
    warm()
    (answer,) = processes.run(1, lambda _: cut(), 120.0)
    assert answer.error is None, answer.error
    assert answer.value == 0.0


def cut() -> float:
    """Between two steps of the denoiser on one device, and with its second block on another."""
    from dcompile.runtime.device_map import _move, wrap_parts
    from dcompile.runtime.logical_devices import LogicalDevices

    model = tiny()
    home, other = (torch.device("cpu", number) for number in range(2))
    places = {"": home, "transformer_blocks.0": home, "transformer_blocks.1": other}
    with torch.no_grad():
        expected = steps(model, 1)
        with LogicalDevices():
            for part in sorted(places, key=len):
                _move(model.get_submodule(part), places[part])
            wrap_parts(model, places, home)
            return apart(steps(model, 1, home).cpu(), expected)
