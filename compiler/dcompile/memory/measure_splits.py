"""Groups without other ranks, and the runtime's own splits of a model without contents, for `memory/measure.py`.

Imports torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore

from dcompile.facts.types import ComponentFacts
from dcompile.layout.shard import parameter_shards
from dcompile.runtime import context_parallel, tensor_parallel

CPU, META = torch.device("cpu"), torch.device("meta")


@contextmanager
def _group(ranks: int) -> Iterator[None]:
    dist.init_process_group("fake", rank=0, world_size=ranks, store=FakeStore())
    try:
        yield
    finally:
        dist.destroy_process_group()


@contextmanager
def tensor_of(component: ComponentFacts, degree: int) -> Iterator[Callable[[Any], None]]:
    """A group of `degree` ranks, and what splits a model over it by the library's plan."""
    layout = {
        "styles": {
            style.module: {"style": style.style, "blocks": list(style.blocks)} for style in component.tensor_plan
        },
        "parameters": {
            name: {"dim": dim, "parts": list(parts)}
            for name, (dim, parts) in parameter_shards(component, degree).items()
        },
    }
    with _group(degree):
        mesh = init_device_mesh("cpu", (degree,), mesh_dim_names=("tensor",))
        yield lambda model: tensor_parallel.shard_in_memory(model, layout, mesh, META)


@contextmanager
def context_of(ulysses: int, ring: int) -> Iterator[Callable[[Any], None]]:
    """A group of `ulysses * ring` ranks, and what splits a model's sequence over it."""
    layout = {"ulysses": ulysses, "ring": ring, "uneven": False}
    with _group(ulysses * ring):
        mesh = init_device_mesh("cpu", (ring, ulysses), mesh_dim_names=("ring", "ulysses"))
        yield lambda model: context_parallel.apply(model, layout, mesh, CPU)
