"""The job does not fit in a device's memory.

What it checks: weights (exact) and activations (estimated, of the largest row) of every device against its memory less
the reserve. The hint has what would fit instead, computed.

Why it matters: out of memory comes after minutes of loading.

Example: FLUX.1-dev on one 24 GB card

Use instead: `tensor`, `device_map`, `offload: model`, or a larger card

Source: our own; `memory/fit.py` has the formulas, `memory/alternatives.py` what is tried instead. Published runs that
ran out of memory: huggingface/diffusers#9127, vllm-project/vllm-omni#919, #2464, #3875 (rows STR-04, STR-05, PDM-19).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic, Path
from dcompile.core.units import format_bytes
from dcompile.memory.alternatives import alternatives, tightest
from dcompile.memory.fit import DeviceLoad, exceeds
from dcompile.rules.rule import Rule, Subject, error, warning

NOTHING = "use more or larger devices"


def check(subject: Subject) -> Iterator[Diagnostic]:
    loads = [load for load in subject.loads if load.room_bytes is not None]
    too_full = tuple(load for load in loads if load.need_bytes > (load.room_bytes or 0))
    if not too_full:
        return
    load = tightest(too_full)
    room = load.room_bytes or 0
    where: Path = max((subject.given("devices", key) for key in ("memory", "gpu", "gpus")), key=len)
    if load.reserve_bytes >= (load.memory_bytes or 0):
        message = (
            f"`reserve` of {format_bytes(load.reserve_bytes)} leaves nothing of {format_bytes(load.memory_bytes or 0)}"
        )
        yield error("DC501", message, "reserve less", subject.given("devices", "reserve") or where)
        return
    found = () if subject.is_candidate else alternatives(subject.recipe, subject.facts, load)
    hint = "; ".join(found) or NOTHING
    of_rank = f" of rank {load.rank}" if subject.splits.ranks > 1 else ""
    if load.weight_bytes > room:
        large = sorted((name for name, size in load.components.items() if size > room), key=load.components.__getitem__)
        if large:
            needs = " and ".join(f"`{name}` needs {format_bytes(load.components[name])}" for name in reversed(large))
            what = f"{needs} on device {load.device}{of_rank}, which has {_memory(load)}"
        else:
            held = f"{format_bytes(load.weight_bytes)} of weights ({_held(load)})"
            what = f"device {load.device}{of_rank} would hold {held} and has {_memory(load)}"
        yield error("DC501", what, hint, where)
        return
    picture = f"picture {load.row}: " if load.row is not None else ""
    message = (
        f"{picture}device {load.device}{of_rank} needs about {format_bytes(load.need_bytes)} "
        f"({format_bytes(load.weight_bytes)} weights, the rest estimated for `{load.peak}`) and has {_memory(load)}"
    )
    at: Path = ("run", "prompts") if load.row is not None else where
    yield (error if exceeds(load) else warning)("DC501", message, hint, at)


def _memory(load: DeviceLoad) -> str:
    kept = f", {format_bytes(load.reserve_bytes)} of it in reserve" if load.reserve_bytes else ""
    return f"{format_bytes(load.memory_bytes or 0)}{kept}"


def _held(load: DeviceLoad) -> str:
    """The three largest components, largest first."""
    largest = sorted(load.components.items(), key=lambda item: -item[1])[:3]
    return ", ".join(f"`{name}` {format_bytes(size)}" for name, size in largest)


RULE = Rule("DC501", check)
