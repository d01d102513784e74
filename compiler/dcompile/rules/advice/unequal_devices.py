"""Ranks that share one model have devices of different size or speed.

What it checks: `devices.gpus` of several kinds, or `memory` of several sizes, under `tensor` or `context`; among the
devices of one replica.

Why it matters: every rank gets an equal share and waits for the others, so the larger card holds no more than the
smaller one, and the faster one works no faster.

Example: `gpus: [rtx-5090, rtx-4090]` with `context: {ulysses: 2}`

Use instead: `device_map`, which fills each card by its size; or `data`, where each card works on its own

Source: our own; sgl-project/sglang#5614, komikndr/raylight#117.
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.core.units import format_bytes
from dcompile.facts.types import HardwareFacts
from dcompile.layout.nodes import devices_per_rank, layout_nodes
from dcompile.rules.rule import Rule, Subject, warning


def check(subject: Subject) -> Iterator[Diagnostic]:
    axes = [axis for axis in subject.splits.mesh if axis != "data"]
    if not axes or len(subject.facts.devices.node) < 2:
        return
    effects = next((found for replica in _replicas(subject) if (found := _effects(replica))), [])
    if effects:
        message = f"`{axes[0]}` gives every rank an equal share, so {', and '.join(effects)}"
        where = max((subject.given("devices", key) for key in ("memory", "gpus")), key=len)
        yield warning("DC605", message, "use `device_map` or `data` on a mixed box", where)


def _replicas(subject: Subject) -> Iterator[list[HardwareFacts]]:
    """The devices of the ranks that make one picture together."""
    devices, splits = subject.facts.devices, subject.splits
    each = devices_per_rank(devices, splits)
    nodes = layout_nodes(devices, splits, each)
    inner = splits.ranks // splits.data
    for replica in range(splits.data):
        on_node = (nodes.local(rank) for rank in range(replica * inner, (replica + 1) * inner))
        numbers = (local * each + device for local in on_node for device in range(each))
        yield [devices.node[number % len(devices.node)] for number in numbers]


def _effects(devices: list[HardwareFacts]) -> list[str]:
    """What it comes to that these devices have equal shares."""
    small, large = (pick(devices, key=lambda device: device.memory_bytes) for pick in (min, max))
    slow, fast = (pick(devices, key=lambda device: device.flops_per_second) for pick in (min, max))
    effects = []
    if large.memory_bytes > small.memory_bytes:
        of = large.name if large.name != small.name else f"{large.name} of {format_bytes(large.memory_bytes)}"
        effects.append(f"{format_bytes(large.memory_bytes - small.memory_bytes)} of `{of}` stay unused")
    if slow.flops_per_second < fast.flops_per_second:
        effects.append(f"all are as fast as `{slow.name}`")
    return effects


RULE = Rule("DC605", check)
