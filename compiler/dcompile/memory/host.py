"""How much memory of the host loading takes, and what is offloaded.

Every rank loads every component on the host before it places any. What diffusers loads is copied into memory, by each
rank for itself. What transformers loads in the dtype of its file stays mapped until it is moved: the ranks of a node
share its pages, and the system may drop them. Under `tensor` each rank reads its own slices of a diffusers model from
the files, tensor by tensor, unless an adapter has to be merged first. Measured with `smaps_rollup` on diffusers 0.42.1
and transformers 5.24: 483 MiB of bfloat16 weights took 530 MiB of anonymous memory through diffusers and none through
transformers; in float32 both took twice that.

What is offloaded rests in pinned memory of each rank's own (`runtime/offload.py`), once the rest has left for its
device. On a CPU it stays as it was loaded.
"""

from __future__ import annotations

from dataclasses import dataclass

from dcompile.core.units import parse_bytes
from dcompile.facts.resolve import Facts
from dcompile.facts.types import ComponentFacts
from dcompile.layout.nodes import layout_nodes
from dcompile.layout.placement import Placement
from dcompile.layout.settings import component_dtype
from dcompile.layout.shard import dtype_bytes, weight_bytes
from dcompile.layout.splits import Split, Splits
from dcompile.layout.stored import storage_of, stored_bytes
from dcompile.recipe.model import Devices, Recipe


@dataclass(frozen=True)
class HostNeed:
    """Attributes:
    ranks: ranks of one node.
    own_bytes: what each rank takes for itself.
    shared_bytes: pages of files that all of them read.
    """

    ranks: int
    own_bytes: int
    shared_bytes: int


def read_bytes(recipe: Recipe, facts: Facts, splits: Splits) -> int:
    """What one rank reads of the model's files: its slices of what `tensor` splits, the whole of the rest."""
    total = 0
    for name, split in splits.components.items():
        component = facts.model.components[name]
        size = dtype_bytes(component.dtype or component_dtype(recipe, name, facts.devices.kind))
        total += weight_bytes(component, size, split.tensor if _reads_slices(recipe, component, split) else 1)
    return total


def _reads_slices(recipe: Recipe, component: ComponentFacts, split: Split) -> bool:
    """Whether a rank reads its own slices alone: not where an adapter has to be merged first, or all is in one file."""
    is_file = recipe.model.path is not None and recipe.model.path.endswith(".safetensors")
    return component.library == "diffusers" and split.tensor > 1 and not recipe.model.adapters and not is_file


def host_memory_bytes(recipe: Recipe) -> int | None:
    """What a recipe says that a host has."""
    section = recipe.devices
    return parse_bytes(section.host_memory) if isinstance(section, Devices) and section.host_memory else None


def host_need(recipe: Recipe, facts: Facts, splits: Splits, placement: Placement) -> HostNeed:
    """What the ranks of a node need while they load, or afterwards for what is offloaded, whichever is more.

    Args:
        recipe, facts, splits: the job.
        placement: where its components lie.
    """
    own = shared = resting = 0
    for name, split in splits.components.items():
        component = facts.model.components[name]
        is_diffusers = component.library == "diffusers"
        storage = storage_of(recipe, name, facts.devices.kind)
        size = stored_bytes(component, storage)
        if split.offload and facts.devices.kind != "cpu":
            resting += sum(placement.bytes_of[name].values())
        if _reads_slices(recipe, component, split):
            continue
        if is_diffusers or storage.method is not None or component.dtype not in (None, storage.dtype):
            own += size
        else:
            shared += size
    ranks = layout_nodes(facts.devices, splits, placement.devices_per_rank).ranks_per_node
    most = max(own, resting)
    # Pages that stay mapped while the rest is loaded have been copied and dropped when it rests.
    return HostNeed(ranks, most, max(0, ranks * own + shared - ranks * most))
