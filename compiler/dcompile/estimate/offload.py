"""How long offloaded weights take from host memory to their device, for one call of a pipeline.

Leaving costs nothing: the device's copy is let go (`runtime/offload.py`). Ranks of a node copy at the same time,
each over a link of its own; that the host's memory is one for all is not counted.
"""

from __future__ import annotations

from dcompile.facts.links import host_bytes_per_second
from dcompile.facts.resolve import Facts
from dcompile.layout.nodes import stands_for
from dcompile.layout.placement import Placement
from dcompile.layout.splits import Splits


def visits(splits: Splits, name: str, branches: int) -> int:
    """How often an offloaded component comes to its device in one call.

    A component leaves when another is called. Where a guided and an unguided text go through several encoders, each of
    them is called again after the others.

    Args:
        splits: the job's components.
        name: of the component.
        branches: 2 where a guided and an unguided branch are run.
    """
    encoders = [other for other in splits.components if other.startswith("text_encoder")]
    return branches if name in encoders and len(encoders) > 1 else 1


def offload_seconds(facts: Facts, splits: Splits, placement: Placement, branches: int) -> float:
    """Seconds of all copies of one call on the slowest rank; none on a CPU, whose memory is the host's."""
    if facts.devices.kind == "cpu":
        return 0.0
    total = 0.0
    for name in sorted(splits.offloaded):
        size = sum(placement.bytes_of[name].values())
        on = stands_for(facts.devices, splits, placement.device_of[name])
        slowest = min(host_bytes_per_second(device.link) for device in on)
        total += visits(splits, name, branches) * size / slowest
    return total
