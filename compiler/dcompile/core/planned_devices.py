"""Whether a machine's devices are those that a plan was made for: pure functions over `plan.json` and what torch finds.

Numbers of devices are torch's. CUDA numbers the fastest first unless `CUDA_DEVICE_ORDER` says otherwise, so on a box of
several kinds they need not be those of `nvidia-smi` (NVIDIA's CUDA C++ programming guide, environment variables).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dcompile.core.units import format_bytes

LEAST_SHARE = 0.9
"""Of the planned memory what torch may find less: drivers keep 0.5 to 2 %, and ECC of a card with GDDR6 a sixteenth."""

ORDER = {
    "cuda": "set `CUDA_DEVICE_ORDER=PCI_BUS_ID` for the order of `nvidia-smi`, or `CUDA_VISIBLE_DEVICES`",
    "xpu": "set `ZE_AFFINITY_MASK`",
}


@dataclass(frozen=True)
class Found:
    """A device as torch describes it."""

    name: str
    memory_bytes: int

    @property
    def text(self) -> str:
        """`NVIDIA L4 with 22.0 GiB`."""
        return f"{self.name} with {format_bytes(self.memory_bytes)}"


@dataclass(frozen=True)
class Planned:
    """A device of a node as the plan has it.

    Attributes:
        names: what drivers call it; empty where the plan does not know.
        memory_bytes: what it has; None where the plan does not know.
        need_bytes: what the plan fills of it, with what it keeps in reserve.
    """

    names: tuple[str, ...]
    memory_bytes: int | None
    need_bytes: int

    @property
    def text(self) -> str:
        """`NVIDIA L4 with 22.5 GiB`, or what is known of that."""
        size = f"with {format_bytes(self.memory_bytes)}" if self.memory_bytes is not None else ""
        return " ".join(part for part in (self.names[0] if self.names else "a device", size) if part)


def planned_devices(plan: Mapping[str, Any]) -> tuple[Planned, ...]:
    """The devices that a plan uses on a node, in order; none where it is for a CPU."""
    program = plan["program"]
    names = program["device_names"]
    if names is None:
        return ()
    keys = ("weight_bytes", "activation_bytes", "reserve_bytes")
    return tuple(
        Planned(tuple(own), device["memory_bytes"], sum(device[key] for key in keys))
        for own, device in zip(names, plan["devices"], strict=False)
    )


def numbers_of(program: Mapping[str, Any], available: int) -> list[int]:
    """torch's numbers of the devices that a plan uses on a node, in order; fewer where the machine has fewer."""
    wanted = program["ranks_per_node"] * program["devices_per_rank"]
    ids = program["device_ids"] or range(available)
    return [number for number in list(ids)[:wanted] if number < available]


@dataclass(frozen=True)
class _Pair:
    """A planned device and the one that is there. `is_swapped` says that it is one of the plan's other kinds."""

    number: int
    device: Planned
    found: Found
    is_swapped: bool

    @property
    def is_smaller(self) -> bool:
        """Whether it has less memory than was planned."""
        planned = self.device.memory_bytes
        return planned is not None and self.found.memory_bytes < LEAST_SHARE * planned

    @property
    def lacks_room(self) -> bool:
        """Whether it has less than the plan needs, too."""
        return self.is_smaller and self.found.memory_bytes < self.device.need_bytes

    @property
    def is_other(self) -> bool:
        """Whether it is another card, as far as that is known."""
        return self.is_smaller or (bool(self.device.names) and self.found.name not in self.device.names)


def _pairs(plan: Mapping[str, Any], here: Sequence[Found], used: Sequence[int]) -> Iterator[_Pair]:
    planned, numbers = planned_devices(plan), numbers_of(plan["program"], len(here))
    kinds = {name for device in planned for name in device.names}
    for at in used:
        if at < min(len(planned), len(numbers)):
            device, found = planned[at], here[numbers[at]]
            is_swapped = bool(device.names) and found.name in kinds and found.name not in device.names
            yield _Pair(numbers[at], device, found, is_swapped)


def device_faults(plan: Mapping[str, Any], here: Sequence[Found], used: Sequence[int]) -> list[str]:
    """Sentences about the devices on which a plan cannot do what it says; none where it can.

    Args:
        plan: the content of `plan.json`.
        here: the devices of the machine, by torch's numbers.
        used: of the devices that the plan uses on a node those that are asked about, from 0.

    A device is at fault where it has less memory than was planned and than the plan needs, or where it is one of the
    plan's other kinds: then the order is another. Of other devices with room the plan only does not know the speed.
    """
    kind, planned = plan["program"]["device_kind"], planned_devices(plan)
    sentences = []
    for pair in _pairs(plan, here, used):
        if not pair.lacks_room and not pair.is_swapped:
            continue
        needs = f", of which it needs {format_bytes(pair.device.need_bytes)}" if pair.lacks_room else ""
        sentences.append(f"{_what(kind, pair)}{needs}: {_way_out(kind, planned, here)}")
    return sentences


def device_notes(plan: Mapping[str, Any], here: Sequence[Found], used: Sequence[int]) -> list[str]:
    """Sentences about devices that have room for the plan and are others than it was made for; as `device_faults`."""
    kind = plan["program"]["device_kind"]
    return [
        f"{_what(kind, pair)}: it has room, and its times are not those of the plan"
        for pair in _pairs(plan, here, used)
        if pair.is_other and not pair.is_swapped and not pair.lacks_room
    ]


def _what(kind: str, pair: _Pair) -> str:
    return f"{kind}:{pair.number} is {pair.found.text}, and the plan was made for {pair.device.text}"


def _way_out(kind: str, planned: Sequence[Planned], here: Sequence[Found]) -> str:
    """What to do: of several kinds of devices the order may be another, of one kind the machine is."""
    if len(set(here)) == 1 and len({device.names for device in planned}) == 1:
        return "compile the recipe again with this machine under `devices` (`dcompile probe` writes it)"
    order = ", ".join(found.name for found in here)
    return f"list `gpus` as torch numbers this machine ({order}), or {ORDER.get(kind, 'change their order')}"
