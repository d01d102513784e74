"""What a component with quantized weights does besides: its layers unpack their weights each time they are called.

The bytes that unpacking passes over follow from the libraries' code; what the host takes to start it is fitted to a
published table (`hardware/speeds.json`: `unpack_bytes`, `unpack_host_seconds`). Products and attention stay what they
are in the component's dtype: no type that recipes can name multiplies in eight bits but bitsandbytes' `int8`, whose
products are not counted as faster, for nothing published shows them so.
"""

from __future__ import annotations

from dataclasses import dataclass

from dcompile.estimate.constants import constant
from dcompile.facts.types import ComponentFacts
from dcompile.layout.stored import Storage, quantized_matrices


@dataclass(frozen=True)
class Unpacking:
    """Of one call of the component, whatever the number of its samples.

    Attributes:
        passed_bytes: read and written by the device.
        host_seconds: what the host takes for it.
    """

    passed_bytes: float = 0.0
    host_seconds: float = 0.0


def unpack_work(component: ComponentFacts, storage: Storage) -> Unpacking:
    """The work of unpacking all quantized weights of a component once; none where there are none."""
    matrices, numbers = quantized_matrices(component, storage)
    if storage.type is None or not matrices:
        return Unpacking()
    return Unpacking(
        passed_bytes=numbers * constant("unpack_bytes", storage.type),
        host_seconds=matrices * constant("unpack_host_seconds", storage.type),
    )
