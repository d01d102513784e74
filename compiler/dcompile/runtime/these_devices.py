"""Whether this machine's devices are those that the plan was made for, asked before anything is loaded."""

from __future__ import annotations

import sys
from typing import Any

import torch

from dcompile.core.planned_devices import Found, device_faults, device_notes
from dcompile.runtime.errors import RunError


def check(plan: dict[str, Any], local_rank: int, *, says_notes: bool = True) -> None:
    """Compares the devices of this rank with the plan's.

    Args:
        plan: the content of `plan.json`.
        local_rank: of this process on its node.
        says_notes: whether to say on stderr that devices are others than the plan's and have room.

    Raises:
        RunError: where one has no room for the plan, or is another of the plan's kinds.
    """
    program = plan["program"]
    if program["device_names"] is None:
        return
    here, count = devices_here(program["device_kind"]), program["devices_per_rank"]
    used = range(local_rank * count, (local_rank + 1) * count)
    faults = device_faults(plan, here, used)
    if faults:
        raise RunError(faults[0])
    for note in device_notes(plan, here, used) if says_notes else ():
        print(f"dcompile: {note}", file=sys.stderr, flush=True)


def devices_here(kind: str) -> list[Found]:
    """The devices of this machine by torch's numbers."""
    library: Any = getattr(torch, kind)
    every = [library.get_device_properties(number) for number in range(library.device_count())]
    return [Found(str(one.name), int(one.total_memory)) for one in every]
