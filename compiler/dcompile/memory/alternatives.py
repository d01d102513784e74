"""What would fit where a job does not: other plans for the same devices, judged by the same loads.

Each is a sentence with the plan as it is written in a recipe and what its fullest device needs. Nothing is proposed
that was not computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from dcompile.core.units import format_bytes
from dcompile.facts.resolve import Facts
from dcompile.layout.placement import cannot_be_cut
from dcompile.layout.shard import undivided
from dcompile.layout.splits import split_components
from dcompile.layout.tokens import divisors
from dcompile.memory.fit import DeviceLoad, belongings, device_loads
from dcompile.memory.host import host_memory_bytes, host_need
from dcompile.memory.offloading import least_offload, offloaded_plan
from dcompile.recipe.model import Component, Parallel, Recipe

MOST_DEVICES = 16
"""Devices up to which a placement is looked for."""


def tightest(loads: tuple[DeviceLoad, ...]) -> DeviceLoad:
    """The load with the least room left; of equals the first."""
    return min(loads, key=lambda load: (load.room_bytes or 0) - load.need_bytes)


def alternatives(recipe: Recipe, facts: Facts, load: DeviceLoad, spare: float = 0.0) -> tuple[str, ...]:
    """Sentences about plans that fit, or come near; the nearest to the recipe first.

    Args:
        recipe, facts: a job that does not fit.
        load: the device that is too full.
        spare: share of a device that has to stay free.
    """
    data = recipe.parallel.data or 1 if isinstance(recipe.parallel, Parallel) else 1
    total = facts.devices.total
    each = MOST_DEVICES if total is None else min(total // data, facts.devices.per_node or total)
    search = _Search(recipe, facts, spare, data, each)
    found: list[str] = []
    if load.room_bytes is not None and load.weight_bytes <= load.room_bytes:
        found += search.smaller_peaks(load)
    # Offloading takes no more devices than there are, and time that a placement on those there are does not take.
    if search.each == 1:
        return (*found, *search.offloads(), *search.placements(), *search.tensor_degrees())
    return (*found, *search.placements(), *search.tensor_degrees(), *search.offloads())


@dataclass(frozen=True)
class _Search:
    """A job, and the devices that each of its `data` replicas may use."""

    recipe: Recipe
    facts: Facts
    spare: float
    data: int
    each: int

    def tried(self, per_node: int | None = None, **change: Any) -> DeviceLoad:
        """The tightest device of the job with some of its sections changed, or with more devices."""
        facts, recipe = self.facts, self.recipe.model_copy(update=change)
        if per_node is not None and facts.devices.per_node is not None:
            facts = replace(facts, devices=replace(facts.devices, per_node=per_node))
        return tightest(device_loads(recipe, facts, split_components(recipe, facts.model), alike_once=True))

    def fits(self, load: DeviceLoad) -> bool:
        """Whether the tightest device has room, and the spare share of it besides."""
        return load.room_bytes is None or load.need_bytes + self.spare * (load.memory_bytes or 0) <= load.room_bytes

    def smaller_peaks(self, load: DeviceLoad) -> Iterator[str]:
        """Where weights fit and activations do not: tiles for the autoencoder, one picture a call, fewer pixels; the
        last only where the job cannot do with what there is."""
        recipe, model = self.recipe, self.facts.model
        if load.peak == "vae":
            own = recipe.components.get("vae") or Component()
            tiled = {**recipe.components, "vae": own.model_copy(update={"tiling": True})}
            if not own.tiling and self.fits(self.tried(components=tiled)):
                yield "`components: {vae: {tiling: true}}` fits"
        if recipe.run.batch > 1 and self.fits(self.tried(run=recipe.run.model_copy(update={"batch": 1}))):
            yield "`batch: 1` fits"
        height, width = recipe.run.height, recipe.run.width
        if self.spare or load.row is not None or height is None or width is None:
            return
        step = max(model.tokens["spatial"], model.tokens.get("multiple", 1))
        for eighths in range(7, 1, -1):
            high, wide = (max(step, side * eighths // 8 // step * step) for side in (height, width))
            if self.fits(self.tried(run=recipe.run.model_copy(update={"height": high, "width": wide}))):
                yield f"{wide}x{high} pixels fit"
                return

    def offloads(self) -> Iterator[str]:
        """The components that make the job fit where their weights rest in host memory, by the fewest bytes."""
        recipe, facts = self.recipe, self.facts
        own = recipe.parallel if isinstance(recipe.parallel, Parallel) else Parallel()
        names = least_offload(recipe, facts, split_components(recipe, facts.model), may_be_tight=not self.spare)
        if not names:
            return
        tried = recipe.model_copy(update={"parallel": offloaded_plan(own, names)})
        splits = split_components(tried, facts.model)
        owned = belongings(tried, facts, splits)
        need, has = host_need(tried, facts, splits, owned.placement), host_memory_bytes(recipe)
        if has is not None and need.ranks * need.own_bytes > has:
            return
        load = tightest(device_loads(tried, facts, splits, owned=owned))
        used = format_bytes(load.need_bytes + load.reserve_bytes)
        yield (
            f"with {', '.join(f'`{name}`' for name in sorted(names))} offloaded (`offload: model` under "
            f"`parallel.components`) device {load.device} takes {used} of {format_bytes(load.memory_bytes or 0)}"
        )

    def placements(self) -> Iterator[str]:
        """Whole components on the devices of a replica, else the largest ones cut over as few devices as will do."""
        facts, each = self.facts, self.each
        if each > 1 and self.fits(self.tried(parallel=Parallel(data=self.data, device_map="balanced"))):
            yield "`device_map: balanced` fits"
            return
        whole = self.tried(parallel=Parallel()).components
        room = max((facts.devices.memory_bytes(device) or 0) - facts.devices.reserve_bytes for device in range(each))
        large = [name for name, size in whole.items() if size > room] or [max(whole, key=lambda name: whole[name])]
        for name in large:
            why = cannot_be_cut(facts.model.components[name])
            if why is not None:
                yield f"`{name}` cannot be cut between blocks: {why}"
                return
        is_mixed = len({device.memory_bytes for device in facts.devices.node}) > 1
        for count in range(2, (min(each, MOST_DEVICES) if is_mixed else MOST_DEVICES) + 1):
            at: dict[str, int | tuple[int, ...]] = dict.fromkeys(large, tuple(range(count)))
            per_node = count * self.data if count > each else None
            if self.fits(self.tried(per_node, parallel=Parallel(data=self.data, device_map=at))):
                text = ", ".join(f"{name}: [{', '.join(map(str, range(count)))}]" for name in large)
                more = f" on {count * self.data} devices of this size" if count > each else ""
                fewest = ", the fewest" if more and (count - 1) * room < sum(whole.values()) else ""
                yield f"`device_map: {{{text}}}` fits{more}{fewest}"
                return

    def tensor_degrees(self) -> Iterator[str]:
        """The smallest tensor degree that fits, or what the largest would need."""
        name = self.facts.model.denoisers[0]
        denoiser = self.facts.model.components[name]
        if not denoiser.tensor_plan or denoiser.heads is None:
            return
        said = self.recipe.parallel.tensor if isinstance(self.recipe.parallel, Parallel) else None
        now = said if isinstance(said, int) else said.degree if said is not None else 1
        degrees = [d for d in divisors(denoiser.heads, self.each) if d > now and not undivided(denoiser, d)]
        for degree in degrees:
            load = self.tried(parallel=Parallel(data=self.data, tensor=degree))
            if self.fits(load):
                yield f"`tensor: {degree}` fits, with {format_bytes(load.components[name])} of `{name}` a device"
                return
        if degrees:
            yield (
                f"`tensor: {degrees[-1]}` leaves {format_bytes(load.components[name])} of `{name}` a device, and "
                f"needs {format_bytes(load.need_bytes)} with what every rank holds whole"
            )
