"""A device is filled to the brim.

What it checks: what is left of every device after weights, estimated activations and the reserve: a warning below 3 %.

Why it matters: it may run, and minutes slower: the allocator frees and asks again at every step, or the last
convolution of the decode finds no room.

Example: FLUX.1-dev on three cards of 24 GB, the transformer whole on one: 0.50 GiB are left

Use instead: `device_map: {transformer: [0, 1]}`

Source: our own; huggingface/diffusers#9195 (2.5 minutes a picture instead of 20 seconds), huggingface/accelerate#473
(row PDM-11).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.core.units import format_bytes
from dcompile.memory.alternatives import alternatives, tightest
from dcompile.memory.fit import LEAST_FREE, is_nearly_full
from dcompile.rules.rule import Rule, Subject, warning


def check(subject: Subject) -> Iterator[Diagnostic]:
    full = [load for load in subject.loads if is_nearly_full(load)]
    if not full:
        return
    load = tightest(tuple(full))
    free = (load.room_bytes or 0) - load.need_bytes
    of_rank = f" of rank {load.rank}" if subject.splits.ranks > 1 else ""
    held = sorted(load.components.items(), key=lambda item: -item[1])[:3]
    parts = [f"`{name}` {format_bytes(size)}" for name, size in held]
    parts += [f"activations about {format_bytes(load.activation_bytes)}"] if load.activation_bytes else []
    parts += [f"reserve {format_bytes(load.reserve_bytes)}"] if load.reserve_bytes else []
    message = (
        f"{format_bytes(free)} of {format_bytes(load.memory_bytes or 0)} are left on device {load.device}{of_rank} "
        f"({', '.join(parts)})"
    )
    found = () if subject.is_candidate else alternatives(subject.recipe, subject.facts, load, LEAST_FREE)
    hint = "; ".join(found) or "use more or larger devices"
    where = max((subject.given("devices", key) for key in ("memory", "gpu", "gpus")), key=len)
    yield warning("DC503", message, hint, where)


RULE = Rule("DC503", check)
