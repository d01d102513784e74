"""Which components to offload where a job does not fit: the fewest bytes that make it fit.

Exact: every set of components that may be offloaded is looked at, in the order of what has to be copied.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import combinations

from dcompile.facts.resolve import Facts
from dcompile.facts.types import ModelFacts
from dcompile.layout.nodes import layout_nodes
from dcompile.layout.splits import Splits
from dcompile.memory.fit import LEAST_FREE, Belongings, belongings
from dcompile.recipe.model import ComponentParallel, Parallel, Recipe

MOST = 10
"""Components that are looked at, the largest first: no pipeline has more, and 1,024 sets take a moment."""


def can_be_offloaded(splits: Splits, name: str) -> bool:
    """Whether what a rank has of a component lies on one device."""
    return len(splits.components[name].devices) < 2


def can_rest(recipe: Recipe, model: ModelFacts, name: str) -> bool:
    """Whether the weights of a component may leave their device: as they are, or as torchao quantizes them (DC435)."""
    own, facts = recipe.components.get(name), model.components.get(name)
    if facts is not None and isinstance(facts.config.get("quantization_config"), dict):
        return False
    return own is None or own.quantize is None or own.quantize.method == "torchao"


def offloaded_plan(parallel: Parallel, names: Iterable[str]) -> Parallel:
    """A plan with components offloaded besides."""
    own = dict(parallel.components)
    for name in sorted(names):
        own[name] = own.get(name, ComponentParallel()).model_copy(update={"offload": "model"})
    return parallel.model_copy(update={"components": own})


def device_needs(owned: Belongings, offloaded: Collection[str]) -> list[int]:
    """Bytes that each device of a rank needs in its fullest phase, with some components offloaded."""
    return [owned.need_bytes(device, offloaded) for device in range(len(owned.held))]


def least_offload(
    recipe: Recipe, facts: Facts, splits: Splits, *, may_be_tight: bool, owned: Belongings | None = None
) -> frozenset[str] | None:
    """The components to offload, beside those that are already, so that every device has room in every phase.

    Args:
        recipe, facts, splits: a job.
        may_be_tight: whether a device may be nearly full where it cannot be helped.
        owned: the job's `belongings`, where they are known.

    Returns:
        Of the sets that leave `LEAST_FREE` of each device the one with the fewest bytes, else of those that leave the
        most; None where none has room, where a device's memory is not known, and on a CPU, where nothing is saved.
    """
    if facts.devices.kind == "cpu":
        return None
    owned = owned or belongings(recipe, facts, splits)
    found = _rooms(facts, splits, owned.placement.devices_per_rank)
    if found is None:
        return None
    rooms = [room for _, room in found]
    free = [room - LEAST_FREE * memory for memory, room in found]
    given = splits.offloaded
    sizes = {
        name: sum(shares.values())
        for name, shares in owned.placement.bytes_of.items()
        if name not in given and can_be_offloaded(splits, name) and can_rest(recipe, facts.model, name)
    }
    names = sorted(sizes, key=lambda name: (-sizes[name], name))[:MOST]

    def needs(chosen: Iterable[str]) -> list[int]:
        return device_needs(owned, given.union(chosen))

    # With everything offloaded every phase is as empty as it can be.
    least = needs(names)
    if _exceed(least, rooms) or (_exceed(least, free) and not may_be_tight):
        return None
    target = [max(*pair) for pair in zip(least, free, strict=True)]
    sets = (chosen for count in range(len(names) + 1) for chosen in combinations(names, count))
    ordered = sorted(sets, key=lambda chosen: (sum(sizes[name] for name in chosen), len(chosen)))
    return frozenset(next(chosen for chosen in ordered if not _exceed(needs(chosen), target)))


def _rooms(facts: Facts, splits: Splits, devices_per_rank: int) -> list[tuple[int, int]] | None:
    """Memory of each device of a rank, of all ranks the least, and what of it is not in reserve."""
    devices = facts.devices
    # Of equal devices the first rank's stand for all, and of equal nodes the first.
    ranks = range(min(layout_nodes(devices, splits, devices_per_rank).ranks_per_node, len(devices.node)))
    found = []
    for device in range(devices_per_rank):
        sizes = [devices.memory_bytes(rank * devices_per_rank + device) for rank in ranks]
        known = [size for size in sizes if size is not None]
        if len(known) < len(sizes):
            return None
        found.append((min(known), min(known) - devices.reserve_bytes))
    return found


def _exceed(needs: Sequence[float], rooms: Sequence[float]) -> bool:
    return any(need > room for need, room in zip(needs, rooms, strict=True))
