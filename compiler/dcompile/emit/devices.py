"""The devices of a plan as people read them: those that hold the same count as one, so that 64 take a few lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dcompile.core.numbered import say_numbers


def alike(devices: Iterable[dict[str, Any]]) -> list[tuple[dict[str, Any], tuple[int, ...]]]:
    """The devices of a plan that differ in what they hold, each once, with the numbers of all that are like it.

    Rank, node and number do not tell devices apart.
    """
    groups: list[tuple[dict[str, Any], dict[str, Any], list[int]]] = []
    for device in devices:
        held = {key: value for key, value in device.items() if key not in ("rank", "node", "device")}
        for known, _, numbers in groups:
            if known == held:
                numbers.append(device["device"])
                break
        else:
            groups.append((held, device, [device["device"]]))
    return [(device, tuple(numbers)) for _, device, numbers in groups]


def say_devices(numbers: Sequence[int]) -> str:
    """`device 0`, or `devices 0-7 (8 alike)`."""
    if len(numbers) == 1:
        return f"device {numbers[0]}"
    return f"devices {say_numbers(numbers)} ({len(numbers)} alike)"


def used_bytes(device: dict[str, Any]) -> int:
    """Weights, activations and reserve of a device."""
    return int(device["weight_bytes"] + device["activation_bytes"] + device["reserve_bytes"])


def fullest(devices: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The device with the least room for its size; where no limit is known, the one that holds most."""
    return max(devices, key=lambda device: used_bytes(device) / (device["memory_bytes"] or 1))


def fullest_phase(device: dict[str, Any]) -> str:
    """The phase of the job in which a device holds most; of equals the first."""
    phase = max(device["phases"], key=lambda phase: phase["weight_bytes"] + phase["activation_bytes"])
    return str(phase["phase"])


def component_order(document: dict[str, Any]) -> list[str]:
    """The plan's components, denoisers first: the order in which they get their letters and colours."""
    denoisers = document["program"]["denoisers"]
    return sorted(document["components"], key=lambda name: (name not in denoisers, name))
