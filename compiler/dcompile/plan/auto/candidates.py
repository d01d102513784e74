"""Every plan that `parallel: auto` may choose, as a recipe would write it: `data` times one kind of split.

A new strategy joins by adding its candidates to `_splits`; nothing else changes. Where two ways to write a split exist
and the second is only needed where the first is illegal (`uneven`), they come as one group, and the first legal one
counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from dcompile.core.flow import flow
from dcompile.facts.resolve import Facts
from dcompile.layout.nodes import nodes_of
from dcompile.layout.placement import cannot_be_cut, place
from dcompile.layout.splits import split_components
from dcompile.layout.tokens import divisors
from dcompile.plan.auto.bounds import Bounds
from dcompile.recipe.model import ComponentParallel, Context, Parallel, Recipe

PLACED = ("device_map", "cut")
"""Kinds whose replica is one process, with devices that work one after the other."""
WIDEST = 64
"""Devices that share one picture; no published run has more."""
EVERY = 16
"""Devices up to which every number is tried; above it those that divide the devices there are."""
MOST_CUT = 16
"""Devices up to which a component is cut between its blocks."""

SIMPLICITY = {"single": 0, "ulysses": 2, "tensor": 3, "device_map": 3, "unified": 4, "ring": 5, "cut": 6}
"""Of plans that take as long on as many devices the lower one wins. Ulysses before unified before ring: row STR-06."""


@dataclass(frozen=True)
class Candidate:
    """One plan.

    Attributes:
        parallel: the section as a recipe would have it.
        kind: the split within a replica, a key of `SIMPLICITY`.
        data: replicas.
        devices: devices in all.
        extras: components beside the denoiser that are split on their own terms.
    """

    parallel: Parallel
    kind: str
    data: int
    devices: int
    extras: int = 0

    @property
    def offloads(self) -> int:
        """Components whose weights rest in host memory."""
        return sum(own.offload is not None for own in self.parallel.components.values())

    @property
    def simplicity(self) -> int:
        """The lower, the simpler."""
        return SIMPLICITY[self.kind] + self.extras + (self.data > 1) + self.offloads

    @property
    def strategy(self) -> tuple[bool, str, bool]:
        """Replicas or not, the family of the split, offload or not: plans that are alike have the same."""
        family = {"unified": "context", "ulysses": "context", "ring": "context", "cut": "device_map"}
        return self.data > 1, family.get(self.kind, self.kind), self.offloads > 0

    @property
    def text(self) -> str:
        """The plan as it is written in a recipe, on one line."""
        return plan_text(self.parallel)


Group = tuple[Candidate, ...]


def plan_text(parallel: Parallel) -> str:
    """`data: 2, context: {ulysses: 4}`; `one device` where nothing is split."""
    value = parallel.model_dump(exclude_none=True, exclude_defaults=True)
    return ", ".join(f"{key}: {flow(part)}" for key, part in value.items()) or "one device"


def candidates(recipe: Recipe, facts: Facts, bounds: Bounds, total: int) -> Iterator[Group]:
    """Every group of candidates for up to `total` devices, in a fixed order.

    Args:
        recipe, facts: the job.
        bounds: what is kept and what is not used.
        total: devices that there are.
    """
    fixed, rows = bounds.fixed, max(1, len(facts.rows))
    fixed_size = any(getattr(fixed, name) is not None for name in ("tensor", "context", "device_map"))
    for inner in range(1, min(total, total if fixed_size else WIDEST) + 1):
        if inner > EVERY and total % inner and not fixed_size:
            continue
        for kind, split in _splits(recipe, facts, bounds, inner):
            of_one = inner if kind in PLACED else 1
            for data in _replicas(fixed.data, total // inner, rows, "data" in bounds.forbid):
                if total > 1 and nodes_of(facts.devices, inner * data // of_one, of_one) is None:
                    continue
                yield tuple(
                    Candidate(_joined(one, fixed, data, facts, recipe, inner, total), kind, data, inner * data, extras)
                    for one, extras in split
                )


def _replicas(fixed: int | None, most: int, rows: int, forbidden: bool) -> tuple[int, ...]:
    """Replicas that are worth a try: no more than the rows keep busy, and fewer by halves (the host may be small)."""
    if fixed is not None:
        return (fixed,) if fixed <= most else ()
    if forbidden:
        return (1,)
    data = min(most, rows)
    data = ceil(rows / ceil(rows / data))
    tried = []
    while data > 1:
        tried.append(data)
        data //= 2
    return (*tried, 1)


Split = list[tuple[Parallel, int]]


def _splits(recipe: Recipe, facts: Facts, bounds: Bounds, inner: int) -> Iterator[tuple[str, Split]]:
    """The ways to split one replica over `inner` devices."""
    fixed, forbid = bounds.fixed, bounds.forbid
    said = {name for name in ("tensor", "context", "device_map") if getattr(fixed, name) is not None}
    if said:
        yield from _as_fixed(fixed, facts, recipe, said, inner)
        return
    if inner == 1:
        yield "single", [(Parallel(), 0)]
        return
    large = _large_encoders(recipe, facts)
    if "context" not in forbid:
        yield from _contexts(forbid, inner, 1, ())
        # An encoder that is too large is split on an axis of its own, along which the denoiser's ranks do the same.
        for tensor in divisors(inner, inner // 2) if large else ():
            if tensor > 1:
                yield from _contexts(forbid, inner // tensor, tensor, large)
    if "tensor" not in forbid:
        yield "tensor", [(Parallel(tensor=inner), 0)]
        if large:
            yield "tensor", [(Parallel(tensor=inner, components=_split(large, inner)), len(large))]
    if "device_map" not in forbid:
        if inner <= len(facts.model.components):
            yield "device_map", [(_packed(recipe, facts, inner), 0)]
        cuts = [(Parallel(device_map=cut), 0) for cut in _cuts(recipe, facts, inner)]
        if cuts:
            yield "cut", cuts


def _contexts(
    forbid: frozenset[str], degree: int, tensor: int, encoders: tuple[str, ...]
) -> Iterator[tuple[str, Split]]:
    """Every pair of Ulysses and ring degrees, with the encoders that are split by `tensor` beside them."""
    more: dict[str, Any] = {"components": _split(encoders, tensor)} if encoders else {}
    for ulysses in divisors(degree, degree):
        ring = degree // ulysses
        kind = "ulysses" if ring == 1 else "ring" if ulysses == 1 else "unified"
        if (ulysses > 1 and "ulysses" in forbid) or (ring > 1 and "ring" in forbid):
            continue
        tries = [Context(ulysses=ulysses, ring=ring)]
        if kind != "unified" and "uneven" not in forbid:
            tries.append(Context(ulysses=ulysses, ring=ring, uneven=True))
        yield kind, [(Parallel(context=one, **more), len(encoders)) for one in tries]


def _split(names: tuple[str, ...], degree: int) -> dict[str, ComponentParallel]:
    return {name: ComponentParallel(tensor=degree) for name in names}


def _as_fixed(fixed: Parallel, facts: Facts, recipe: Recipe, said: set[str], inner: int) -> Iterator[tuple[str, Split]]:
    """The one split that the bounds fix, where it takes `inner` devices; the rules judge whether it is legal."""
    splits = split_components(recipe.model_copy(update={"parallel": fixed}), facts.model)
    if splits.balanced:
        if inner > 1:
            yield "device_map", [(Parallel(device_map="balanced"), 0)]
        return
    if splits.ranks // splits.data * splits.named_devices != inner:
        return
    kind = "tensor" if "tensor" in said else "device_map" if "device_map" in said else "unified"
    if fixed.context is not None and 1 in (fixed.context.ulysses, fixed.context.ring):
        kind = "ulysses" if fixed.context.ring == 1 else "ring"
    yield kind, [(Parallel(), 0)]


def _joined(
    split: Parallel, fixed: Parallel, data: int, facts: Facts, recipe: Recipe, inner: int, total: int
) -> Parallel:
    """A split with its replicas and with what is fixed."""
    given: dict[str, Any] = {name: getattr(split, name) for name in split.model_fields_set}
    if data > 1:
        given["data"] = data
    if given.get("device_map") == "balanced" and inner * data != total:
        # `balanced` would use all devices: its packing for fewer is written out.
        given["device_map"] = _packed(recipe, facts, inner).device_map
    components = {**given.pop("components", {}), **fixed.components}
    kept = {name: getattr(fixed, name) for name in fixed.model_fields_set if name not in ("components", "data")}
    if components:
        given["components"] = components
    return Parallel(**{**given, **kept})


def _packed(recipe: Recipe, facts: Facts, count: int) -> Parallel:
    """Whole components on `count` devices, as `balanced` packs them."""
    these = replace(facts, devices=replace(facts.devices, per_node=count, nodes=1))
    tried = recipe.model_copy(update={"parallel": Parallel(device_map="balanced")})
    at: dict[str, int | tuple[int, ...]] = dict(place(tried, these, split_components(tried, facts.model)).device_of)
    return Parallel(device_map=at)


def _whole_bytes(recipe: Recipe, facts: Facts) -> dict[str, int]:
    """Bytes of every component where nothing is split."""
    tried = recipe.model_copy(update={"parallel": Parallel()})
    placement = place(tried, facts, split_components(tried, facts.model))
    return {name: sum(sizes.values()) for name, sizes in placement.bytes_of.items()}


def _room(facts: Facts) -> int | None:
    memory = facts.devices.memory_bytes(0)
    return None if memory is None else memory - facts.devices.reserve_bytes


def _cuts(recipe: Recipe, facts: Facts, count: int) -> Iterator[dict[str, int | tuple[int, ...]]]:
    """Which components are cut over all devices: those too large for one, else the largest."""
    if count > MOST_CUT:
        return
    whole, room = _whole_bytes(recipe, facts), _room(facts)
    large = [name for name, size in whole.items() if room is not None and size > room]
    for names in dict.fromkeys((tuple(large), (max(whole, key=lambda name: whole[name]),), facts.model.denoisers)):
        if names and all(cannot_be_cut(facts.model.components[name]) is None for name in names):
            yield dict.fromkeys(names, tuple(range(count)))


def _large_encoders(recipe: Recipe, facts: Facts) -> tuple[str, ...]:
    """Every large component that no rank needs whole and whose class has a tensor plan."""
    room = _room(facts)
    if room is None:
        return ()
    return tuple(
        name
        for name, size in _whole_bytes(recipe, facts).items()
        if size > room // 4 and name not in facts.model.denoisers and facts.model.components[name].tensor_plan
    )
