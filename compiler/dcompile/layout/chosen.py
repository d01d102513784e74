"""Some of a node's devices, in some order: as a recipe says it, and as facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dcompile.core.flow import flow
from dcompile.facts.resolve import DeviceFacts
from dcompile.recipe.model import Devices


def is_of(section: Devices, count: int) -> bool:
    """Whether every list of `devices` is of so many devices (where not, DC407 and DC530 say it)."""
    speeds = section.measured.speeds if section.measured is not None and len(section.measured.speeds) > 1 else None
    memory = section.memory if isinstance(section.memory, tuple) else None
    return all(len(one) == count for one in (section.gpus, memory, section.ids, speeds) if one is not None)


def section_of(section: Devices, numbers: Sequence[int]) -> Devices:
    """`devices` for a job that has only these devices of the node, in this order.

    Args:
        section: as it is written.
        numbers: of the devices that it describes, from 0.
    """
    return section.model_copy(update=_changes(section, numbers))


def say_section(section: Devices, numbers: Sequence[int]) -> str:
    """The keys of `devices` that `section_of` changes: `gpus: [l40s, l40s], ids: [1, 2]`; the first need no `ids`."""
    changes = _changes(section, numbers)
    if section.ids is None and len(changes) > 1 and list(numbers) == list(range(len(numbers))):
        del changes["ids"]
    return ", ".join(f"{key}: {flow(changes[key])}" for key in ("gpus", "memory", "per_node", "ids") if key in changes)


def _changes(section: Devices, numbers: Sequence[int]) -> dict[str, Any]:
    changes: dict[str, Any] = {"ids": tuple(section.ids[i] if section.ids is not None else i for i in numbers)}
    if section.gpus is not None:
        changes["gpus"] = tuple(section.gpus[i] for i in numbers)
    if isinstance(section.memory, tuple):
        changes["memory"] = tuple(section.memory[i] for i in numbers)
    if section.per_node is not None:
        changes["per_node"] = len(numbers)
    if section.measured is not None and len(section.measured.speeds) > 1:
        speeds = tuple(section.measured.speeds[i] for i in numbers)
        changes["measured"] = section.measured.model_copy(update={"speeds": speeds})
    return changes


def devices_of(devices: DeviceFacts, numbers: Sequence[int]) -> DeviceFacts:
    """The facts of the same devices."""
    node = devices.node
    chosen = tuple(node[i % len(node)] for i in numbers) if len(node) > 1 else node
    return replace(devices, node=chosen, per_node=len(numbers))
