"""Every plan that `parallel: auto` may choose, as a recipe would write it: `data` times one kind of split.

A new strategy joins by adding its candidates to `_splits`; nothing else changes. Where two ways to write a split exist
and the second is only needed where the first is illegal (`uneven`), they come as one group, and the first legal one
counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from typing import Any

from dcompile.core.flow import flow
from dcompile.facts.resolve import Facts
from dcompile.facts.types import HardwareFacts
from dcompile.layout.chosen import devices_of, section_of
from dcompile.layout.nodes import nodes_of
from dcompile.layout.placement import Needs, cannot_be_cut, place
from dcompile.layout.splits import split_components
from dcompile.layout.tokens import divisors
from dcompile.memory.fit import Belongings, belongings, needs_of
from dcompile.plan.auto.bounds import Bounds
from dcompile.plan.auto.boxes import Numbers, can_be_chosen, is_mixed, orders_of, sets_of
from dcompile.recipe.model import ComponentParallel, Context, Devices, Parallel, Recipe

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
        numbers: the devices of a mixed box that it is for, where they are not the first; in the order of the ranks.
        ids: the same by their numbers on the machine, as `devices.ids` has them.
    """

    parallel: Parallel
    kind: str
    data: int
    devices: int
    extras: int = 0
    numbers: Numbers | None = None
    ids: Numbers | None = None

    @property
    def offloads(self) -> int:
        """Components whose weights rest in host memory."""
        return sum(own.offload is not None for own in self.parallel.components.values())

    @property
    def simplicity(self) -> int:
        """The lower, the simpler."""
        return SIMPLICITY[self.kind] + self.extras + (self.data > 1) + self.offloads + (self.numbers is not None)

    @property
    def strategy(self) -> tuple[bool, str, bool]:
        """Replicas or not, the family of the split, offload or not: plans that are alike have the same."""
        family = {"unified": "context", "ulysses": "context", "ring": "context", "cut": "device_map"}
        return self.data > 1, family.get(self.kind, self.kind), self.offloads > 0

    @cached_property
    def text(self) -> str:
        """The plan as it is written in a recipe, on one line, and the devices where these are not the first."""
        return plan_text(self.parallel) + (f", ids: {flow(self.ids)}" if self.ids is not None else "")


Group = tuple[Candidate, ...]
Split = list[tuple[Parallel, int]]
"""Ways to write a split, with how many other components are split; the first legal one counts."""
Map = dict[str, int | tuple[int, ...]]
"""A value of `device_map`."""


def plan_text(parallel: Parallel) -> str:
    """`data: 2, context: {ulysses: 4}`; `one device` where nothing is split."""
    value = parallel.model_dump(exclude_none=True, exclude_defaults=True)
    return ", ".join(f"{key}: {flow(part)}" for key, part in value.items()) or "one device"


@dataclass(frozen=True)
class _Job:
    """A recipe, its facts and the bounds, with what a component needs where nothing is split.

    `numbers` are the devices that its facts have, where these are not the node's first.
    """

    recipe: Recipe
    facts: Facts
    bounds: Bounds
    numbers: Numbers | None = None

    @property
    def ids(self) -> Numbers | None:
        """The numbers of these devices on the machine."""
        if self.numbers is None or not isinstance(self.recipe.devices, Devices):
            return None
        return section_of(self.recipe.devices, self.numbers).ids

    def on(self, numbers: Numbers) -> _Job:
        """The same on some devices of the node."""
        facts = replace(self.facts, devices=devices_of(self.facts.devices, numbers))
        other = replace(self, facts=facts, numbers=numbers)
        # What a component needs does not depend on the devices of its kind.
        vars(other)["_owned"] = self._owned
        return other

    @cached_property
    def _owned(self) -> Belongings:
        whole = self.recipe.model_copy(update={"parallel": Parallel()})
        return belongings(whole, self.facts, split_components(whole, self.facts.model))

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Bytes of the weights of each component."""
        return {name: sum(held.values()) for name, held in self._owned.placement.bytes_of.items()}

    @cached_property
    def needs(self) -> Needs:
        """What components need beside them."""
        return needs_of(self._owned.peaks, self._owned.home)

    @property
    def room(self) -> int | None:
        """What the smallest device of a node has beside its reserve."""
        devices = self.facts.devices
        if not devices.has_memory:
            return None
        return min(device.memory_bytes for device in devices.node) - devices.reserve_bytes

    @cached_property
    def large_encoders(self) -> tuple[str, ...]:
        """Every large component that no rank needs whole and whose class has a tensor plan."""
        model, room = self.facts.model, self.room
        if room is None:
            return ()
        return tuple(
            name
            for name, size in self.sizes.items()
            if size > room // 4 and name not in model.denoisers and model.components[name].tensor_plan
        )

    def kinds(self, numbers: Numbers) -> tuple[HardwareFacts, ...]:
        """What these devices of the job's own are."""
        node = self.facts.devices.node
        return tuple(node[number % len(node)] for number in numbers)

    def packed(self, on: Mapping[str, int], count: int, data: int = 1) -> Parallel | None:
        """Every component on one of `count` devices, so that the fullest is as empty as it can be while each is called.

        Args:
            on: the components whose device is given.
            count: devices of a replica.
            data: replicas for which the packing has to do.

        Returns:
            None where there is no such packing, or where a device holds nothing: the same is a plan for fewer.
        """
        facts = replace(self.facts, devices=replace(self.facts.devices, per_node=count * data, nodes=1))
        at = {name: ComponentParallel(device=device) for name, device in on.items()}
        tried = self.recipe.model_copy(update={"parallel": Parallel(data=data, device_map="balanced", components=at)})
        placement = place(tried, facts, split_components(tried, facts.model), self.needs)
        held = {device for sizes in placement.bytes_of.values() for device, size in sizes.items() if size}
        if len(held) < count:
            return None
        largest_first = sorted(placement.device_of, key=lambda name: (-self.sizes[name], name))
        device_of = placement.device_of
        if not on and len(set(self.facts.devices.node)) == 1:
            # Which of devices that are alike holds what is all one: the largest component lies on the first.
            number = {device: i for i, device in enumerate(dict.fromkeys(device_of[name] for name in largest_first))}
            device_of = {name: number[device] for name, device in device_of.items()}
        return Parallel(device_map={name: device_of[name] for name in largest_first})


def candidates(recipe: Recipe, facts: Facts, bounds: Bounds, total: int) -> Iterator[Group]:
    """Every group of candidates for up to `total` devices, in a fixed order.

    Args:
        recipe, facts: the job.
        bounds: what is kept and what is not used.
        total: devices that there are.
    """
    job = _Job(recipe, facts, bounds)
    fixed, rows = bounds.fixed, max(1, len(facts.rows))
    fixed_size = any(getattr(fixed, name) is not None for name in ("tensor", "context", "device_map"))
    may_choose = can_be_chosen(recipe, facts, bounds)
    for inner in range(1, min(total, total if fixed_size else WIDEST) + 1):
        if inner > EVERY and total % inner and not fixed_size:
            continue
        replicas = _replicas(fixed.data, total // inner, rows, "data" in bounds.forbid)
        if not is_mixed(facts):
            yield from _groups(job, inner, replicas, total, _splits(job, inner))
            continue
        # Replicas of a mixed box differ, and a packing has to do for all of them.
        for data in replicas:
            if not may_choose:
                yield from _groups(job, inner, (data,), total, _splits(job, inner, data))
                continue
            tried = set()
            for numbers in sets_of(facts, inner, data):
                these = job if numbers == tuple(range(len(numbers))) else job.on(numbers)
                tried.add(job.kinds(numbers))
                yield from _groups(these, inner, (data,), total, _splits(these, inner, data))
            if inner == 1 or fixed_size or "device_map" in bounds.forbid:
                continue
            for numbers, is_for_cut in orders_of(facts, inner, data):
                if (kinds := job.kinds(numbers)) not in tried:
                    tried.add(kinds)
                    these = job.on(numbers)
                    placed = _cut(these, inner) if is_for_cut else _placed(these, inner, data)
                    yield from _groups(these, inner, (data,), total, placed)


def _groups(
    job: _Job, inner: int, replicas: tuple[int, ...], total: int, splits: Iterator[tuple[str, Split]]
) -> Iterator[Group]:
    """The candidates with replicas of `inner` devices."""
    for kind, split in splits:
        of_one = inner if kind in PLACED else 1
        for data in replicas:
            if total > 1 and nodes_of(job.facts.devices, inner * data // of_one, of_one) is None:
                continue
            joined = ((_joined(one, job, data, inner, total), extras) for one, extras in split)
            group = tuple(
                Candidate(parallel, kind, data, inner * data, extras, job.numbers, job.ids)
                for parallel, extras in joined
                if parallel is not None
            )
            if group:
                yield group


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


def _splits(job: _Job, inner: int, data: int = 1) -> Iterator[tuple[str, Split]]:
    """The ways to split one replica over `inner` devices; of a mixed box with so many replicas."""
    fixed, forbid = job.bounds.fixed, job.bounds.forbid
    said = {name for name in ("tensor", "context", "device_map") if getattr(fixed, name) is not None}
    if said:
        yield from _as_fixed(fixed, job.facts, job.recipe, said, inner)
        return
    if inner == 1:
        yield "single", [(Parallel(), 0)]
        return
    if "context" not in forbid:
        yield from _contexts(forbid, inner, 1, ())
        # An encoder that is too large is split on an axis of its own, along which the denoiser's ranks do the same.
        for tensor in divisors(inner, inner // 2) if job.large_encoders else ():
            if tensor > 1:
                yield from _contexts(forbid, inner // tensor, tensor, job.large_encoders)
    if "tensor" not in forbid:
        yield "tensor", [(Parallel(tensor=inner), 0)]
        if large := job.large_encoders:
            yield "tensor", [(Parallel(tensor=inner, components=_split(large, inner)), len(large))]
    if "device_map" not in forbid:
        yield from _placed(job, inner, data)


def _placed(job: _Job, inner: int, data: int) -> Iterator[tuple[str, Split]]:
    """Whole components on `inner` devices, and the largest ones cut over them."""
    seen: list[Parallel] = []
    for at in _at_first(job, inner) if inner <= len(job.facts.model.components) else ():
        packed = job.packed(at, inner, data)
        if packed is not None and packed not in seen:
            seen.append(packed)
            yield "device_map", [(packed, 0)]
    yield from _cut(job, inner)


def _cut(job: _Job, inner: int) -> Iterator[tuple[str, Split]]:
    for cut in _cuts(job, inner):
        yield "cut", [(Parallel(device_map=cut), 0)]


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


def _at_first(job: _Job, inner: int) -> Iterator[dict[str, int]]:
    """What is placed before the rest is packed: nothing; and on a mixed box the denoisers, on one of each kind.

    The emptiest packing may have the denoiser on a slow device.
    """
    yield {}
    node = job.facts.devices.node[:inner]
    kinds = {device: number for number, device in reversed(list(enumerate(node)))}
    if len(kinds) > 1:
        for number in sorted(kinds.values()):
            yield dict.fromkeys(job.facts.model.denoisers, number)


def _joined(split: Parallel, job: _Job, data: int, inner: int, total: int) -> Parallel | None:
    """A split with its replicas and with what is fixed; None where `balanced` leaves a device of fewer empty."""
    fixed = job.bounds.fixed
    given: dict[str, Any] = {name: getattr(split, name) for name in split.model_fields_set}
    kept = {name: getattr(fixed, name) for name in fixed.model_fields_set if name not in ("components", "data")}
    if data > 1:
        given["data"] = data
    if given.get("device_map") == "balanced" and inner * data != total:
        # `balanced` would use all devices: its packing for fewer is written out.
        packed = job.packed({}, inner, data)
        if packed is None:
            return None
        kept["device_map"] = packed.device_map
    components = {**given.pop("components", {}), **fixed.components}
    if components:
        given["components"] = components
    return Parallel(**{**given, **kept})


def _cuts(job: _Job, count: int) -> Iterator[Map]:
    """Which components are cut over all devices: those too large for one, else the largest."""
    if count > MOST_CUT:
        return
    sizes, room, model = job.sizes, job.room, job.facts.model
    large = [name for name, size in sizes.items() if room is not None and size > room]
    for names in dict.fromkeys((tuple(large), (max(sizes, key=lambda name: sizes[name]),), model.denoisers)):
        if names and all(cannot_be_cut(model.components[name]) is None for name in names):
            yield dict.fromkeys(names, tuple(range(count)))
