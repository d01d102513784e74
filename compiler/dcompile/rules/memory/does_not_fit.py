"""The job does not fit in a device's memory.

What it checks: weights (exact) and activations (estimated) of every device against its memory less the reserve.

Why it matters: out of memory comes after minutes of loading.

Example: FLUX.1-dev on one 24 GB card

Use instead: `tensor`, `device_map`, or a larger card

Source: our own; `memory/fit.py` has the formulas.
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.core.units import format_bytes
from dcompile.memory.fit import ACTIVATION_MARGIN, device_loads
from dcompile.rules.rule import Rule, Subject, error, warning


def check(subject: Subject) -> Iterator[Diagnostic]:
    for load in device_loads(subject.recipe, subject.facts, subject.splits, subject.settings):
        if load.memory_bytes is None:
            continue
        room = load.memory_bytes - load.reserve_bytes
        where = max((subject.given("devices", key) for key in ("memory", "gpu", "gpus")), key=len)
        most = max(load.components, key=lambda name: load.components[name], default="nothing")
        if load.weight_bytes > room:
            message = (
                f"device {load.device} of rank {load.rank} would hold {format_bytes(load.weight_bytes)} of weights "
                f"and has {format_bytes(room)} (largest: `{most}`, {format_bytes(load.components[most])})"
            )
            yield error(
                "DC501", message, "split the largest component (`tensor`, `device_map`) or use larger devices", where
            )
            return
        need = load.weight_bytes + load.activation_bytes
        if need > room:
            message = (
                f"device {load.device} of rank {load.rank} needs about {format_bytes(need)} "
                f"({format_bytes(load.weight_bytes)} weights, the rest estimated) and has {format_bytes(room)}"
            )
            hint = "make the picture smaller, split the sequence (`context`), or use larger devices"
            beyond = load.weight_bytes + load.activation_bytes * (1 - ACTIVATION_MARGIN) > room
            yield (error if beyond else warning)("DC501", message, hint, where)
            return


RULE = Rule("DC501", check)
