"""What lies on each device and how full it is.

Weights are exact to the byte. Activations are measured peaks (`memory/peaks.py`) with a margin. A device is as full as
in the fullest phase of the job (`memory/timeline.py`), in the largest shape that any row has.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from dcompile.facts.resolve import Facts
from dcompile.layout.nodes import layout_nodes
from dcompile.layout.placement import Needs, Placement, place
from dcompile.layout.settings import Settings, has_own_shape, recipe_of_row, rows_by_shape, settings_of
from dcompile.layout.splits import Splits
from dcompile.layout.stored import storage_of, work_bytes
from dcompile.memory.home import Kept, kept_at_home
from dcompile.memory.peaks import PHASES, component_peaks
from dcompile.memory.timeline import EMPTY, Phase, ShapedPeak, Timeline, need_bytes, timeline
from dcompile.recipe.model import Recipe

LEAST_FREE = 0.03
"""Share of a device that should stay free beside the reserve: allocators round sizes up and keep fragments."""


@dataclass(frozen=True)
class DeviceLoad:
    """One device of one rank, over the phases of the job; what it says beside them is of the fullest.

    All sizes in bytes; `memory_bytes` is None where the machine's memory is not known.
    """

    rank: int
    device: int
    memory_bytes: int | None
    reserve_bytes: int
    timeline: Timeline

    @property
    def phases(self) -> tuple[Phase, ...]:
        """Encode, denoise and decode."""
        return self.timeline.phases

    @property
    def fullest(self) -> Phase:
        """The phase that needs most."""
        return self.timeline.fullest

    @property
    def weight_bytes(self) -> int:
        """Weights in the fullest phase."""
        return self.fullest.weight_bytes

    @property
    def activation_bytes(self) -> int:
        """Activations in the fullest phase."""
        return self.fullest.activation_bytes

    @property
    def margin_bytes(self) -> int:
        """By how much these may be wrong."""
        return self.fullest.margin_bytes

    @property
    def components(self) -> Mapping[str, int]:
        """Weights of each component that is there in the fullest phase."""
        return self.fullest.components

    @property
    def peak(self) -> str | None:
        """The component that is called in the fullest phase."""
        return self.fullest.called

    @property
    def row(self) -> int | None:
        """The row whose shape the activations have, where that is not the recipe's own."""
        return self.fullest.row

    @property
    def need_bytes(self) -> int:
        """Weights and activations."""
        return self.timeline.need_bytes

    @property
    def room_bytes(self) -> int | None:
        """What weights and activations may take."""
        return None if self.memory_bytes is None else self.memory_bytes - self.reserve_bytes


def exceeds(load: DeviceLoad) -> bool:
    """Whether a device is too small in some phase by more than the estimate of that phase may be wrong by."""
    return load.memory_bytes is not None and load.timeline.least_bytes > load.memory_bytes - load.reserve_bytes


def is_nearly_full(load: DeviceLoad) -> bool:
    """Whether a device has room, and less than `LEAST_FREE` of it is left."""
    if load.room_bytes is None or load.memory_bytes is None:
        return False
    return 0 <= load.room_bytes - load.need_bytes < LEAST_FREE * load.memory_bytes


def job_shapes(recipe: Recipe, facts: Facts, own: Settings | None = None) -> list[tuple[int | None, Settings]]:
    """Every shape that a row of the job has, with the index of the first such row; None for the recipe's own.

    Args:
        recipe, facts: the job.
        own: the recipe's own settings, where they are known.
    """
    return [
        (row.index, settings_of(recipe_of_row(recipe, row), facts))
        if has_own_shape(row)
        else (None, own or settings_of(recipe_of_row(recipe, row), facts))
        for row in rows_by_shape(facts)
    ]


@dataclass(frozen=True)
class Belongings:
    """What belongs on the devices of a rank, whether it is there all the time or not.

    Attributes:
        placement: where every component lies.
        peaks: the largest peak of every component in each phase in which it is called.
        held: bytes of each component's weights, for each device.
        home: what the pipeline holds in each phase on the device where it works, at the most.
    """

    placement: Placement
    peaks: dict[str, dict[str, ShapedPeak]]
    held: tuple[dict[str, int], ...]
    home: dict[str, Kept]

    def timeline(self, device: int, offloaded: Collection[str]) -> Timeline:
        """The phases of a device of a rank, with some components offloaded."""
        return timeline(self.held[device], self.peaks, offloaded, self._home_on(device))

    def need_bytes(self, device: int, offloaded: Collection[str]) -> int:
        """What it needs in the fullest of them."""
        return need_bytes(self.held[device], self.peaks, offloaded, self._home_on(device))

    def _home_on(self, device: int) -> Mapping[str, Kept]:
        return self.home if device == self.placement.home else EMPTY


def belongings(recipe: Recipe, facts: Facts, splits: Splits, settings: Settings | None = None) -> Belongings:
    """What belongs on the devices of a rank; what is offloaded belongs there too, and is packed as a guest.

    Args:
        recipe, facts, splits: the job.
        settings: the recipe's own settings, where they are known.
    """
    shapes = job_shapes(recipe, facts, settings)
    peaks: dict[str, dict[str, ShapedPeak]] = {}
    for name, split in splits.components.items():
        own = peaks[name] = {}
        work = work_bytes(facts.model.components[name], storage_of(recipe, name, facts.devices.kind))
        for row, shape in shapes:
            for phase, activations in component_peaks(recipe, facts, name, split, shape).items():
                peak = replace(activations, peak_bytes=activations.peak_bytes + work)
                if phase not in own or peak.peak_bytes > own[phase].peak.peak_bytes:
                    own[phase] = ShapedPeak(peak, row)
    tensor = splits.components[facts.model.denoisers[0]].tensor
    at_home = [kept_at_home(recipe, facts, shape, tensor) for _, shape in shapes]
    home = {phase: max((one[phase] for one in at_home), key=lambda kept: kept.need_bytes) for phase in PHASES}
    placement = place(recipe, facts, splits, needs_of(peaks, home))
    held = tuple(
        {name: shares[device] for name, shares in placement.bytes_of.items() if shares.get(device)}
        for device in range(placement.devices_per_rank)
    )
    return Belongings(placement, peaks, held, home)


def needs_of(peaks: Mapping[str, Mapping[str, ShapedPeak]], home: Mapping[str, Kept]) -> Needs:
    """What each component needs beside its weights in the phase that needs most; the first of them by name, beside
    which the pipeline works, has what is handed over there.
    """
    needs = {name: max((one.peak.peak_bytes for one in own.values()), default=0) for name, own in peaks.items()}
    first = min(needs)
    needs[first] = max(needs[first], *(kept.handed_bytes for kept in home.values()))
    return Needs(needs, max(kept.always_bytes for kept in home.values()))


def guests_of(facts: Facts, splits: Splits) -> frozenset[str]:
    """The components that a device holds only while they are called. On a CPU, whose memory is the host's, none."""
    return frozenset() if facts.devices.kind == "cpu" else splits.offloaded


def device_loads(
    recipe: Recipe, facts: Facts, splits: Splits, alike_once: bool = False, owned: Belongings | None = None
) -> tuple[DeviceLoad, ...]:
    """Every device of every rank, in order of rank.

    Args:
        recipe, facts, splits: the job.
        alike_once: only the first of ranks that are sure to hold the same on the same devices: one of a node whose
            devices are alike, else those of one node.
        owned: the job's `belongings`, where they are known.
    """
    owned = owned or belongings(recipe, facts, splits)
    guests = guests_of(facts, splits)
    of_device = [owned.timeline(device, guests) for device in range(len(owned.held))]
    devices_per_rank = owned.placement.devices_per_rank
    nodes = layout_nodes(facts.devices, splits, devices_per_rank)
    told = splits.ranks if not alike_once else 1 if len(facts.devices.node) == 1 else nodes.ranks_per_node
    return tuple(
        DeviceLoad(
            rank=rank,
            device=device,
            memory_bytes=facts.devices.memory_bytes(nodes.local(rank) * devices_per_rank + device),
            reserve_bytes=facts.devices.reserve_bytes,
            timeline=on_device,
        )
        for rank in range(told)
        for device, on_device in enumerate(of_device)
    )
