"""Ranks that share one model have devices of different size or speed.

What it checks: `devices.gpus` of several kinds under `tensor` or `context`.

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
from dcompile.rules.rule import Rule, Subject, warning


def check(subject: Subject) -> Iterator[Diagnostic]:
    axes = [axis for axis in subject.splits.mesh if axis != "data"]
    devices = {device.name: device for device in subject.facts.devices.node}
    if not axes or len(devices) < 2:
        return
    small = min(devices.values(), key=lambda device: device.memory_bytes)
    large = max(devices.values(), key=lambda device: device.memory_bytes)
    slow = min(devices.values(), key=lambda device: device.flops_per_second)
    spare = large.memory_bytes - small.memory_bytes
    unused = f", so {format_bytes(spare)} of `{large.name}` stay unused" if spare else ""
    message = f"`{axes[0]}` gives every rank an equal share{unused}, and all are as fast as `{slow.name}`"
    yield warning("DC605", message, "use `device_map` or `data` on a mixed box", ("devices", "gpus"))


RULE = Rule("DC605", check)
