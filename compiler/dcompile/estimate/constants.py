"""What devices reach of their nominal speed: `hardware/speeds.json`, each number with its source."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from dcompile.facts.registry import HARDWARE, read_json
from dcompile.facts.types import HardwareFacts, MeasuredSpeed

HALF = ("bfloat16", "float16")
"""Dtypes that the table's shares hold for."""


@dataclass(frozen=True)
class Rates:
    """What one device does a second: operations of matrix products, of attention and of convolutions, bytes of memory.

    `host_seconds_per_block` is what the host takes to start one block's kernels, where that was measured.
    """

    matmul_flops: float
    attention_flops: float
    convolution_flops: float
    memory_bytes: float
    host_seconds_per_block: float | None = None


@lru_cache(maxsize=1)
def _speeds() -> dict[str, Any]:
    speeds: dict[str, Any] = read_json(HARDWARE.parent / "speeds.json")
    return speeds


def rates_of(device: HardwareFacts, dtype: str = "bfloat16") -> Rates | None:
    """The rates of a device: those measured on it in this dtype, else those of the table.

    Returns:
        None where its speed is not known: a CPU or a bare `kind` without measured values.
    """
    table = _by_table(device, dtype)
    found = measured_speed(device, dtype)
    if found is None:
        return table
    matmul = found.matmul_flops_per_second
    if matmul is not None and device.kind != "cpu":
        matmul *= constant("measured_matmul")
    attention = found.attention_flops_per_second or (table.attention_flops if table is not None else None)
    memory = found.memory_bytes_per_second or (table.memory_bytes if table is not None else None)
    matmul = matmul or (table.matmul_flops if table is not None else None)
    if matmul is None or attention is None or memory is None:
        return None
    convolution = table.convolution_flops if table is not None and dtype not in HALF else matmul
    return Rates(matmul, attention, convolution, memory, found.host_seconds_per_block)


def _by_table(device: HardwareFacts, dtype: str) -> Rates | None:
    """The rates of a known device.

    In float32 torch multiplies matrices without tensor cores and convolves in TF32: by default `cuda.matmul.allow_tf32`
    is False and `cudnn.allow_tf32` True (PyTorch's CUDA semantics, TensorFloat-32), and no recipe can say otherwise.
    """
    shares = _speeds()["devices"].get(device.name)
    if shares is None:
        return None
    nominal, memory = device.flops_per_second, device.memory_bytes_per_second
    of_matmul, of_attention = shares["matmul"][0], shares["attention"][0]
    if dtype in HALF:
        return Rates(nominal * of_matmul, nominal * of_attention, nominal * of_matmul, memory)
    wide, tensor = device.float32_flops_per_second, device.tf32_flops_per_second
    if dtype != "float32" or wide is None:
        return None
    products = wide * constant("float32_matmul")
    if tensor is None:
        return Rates(products, products, products, memory)
    attention = tensor * constant("float32_attention") * of_attention
    return Rates(products, attention, tensor * of_matmul, memory)


def measured_speed(device: HardwareFacts, dtype: str) -> MeasuredSpeed | None:
    """What was measured on a device, where it says something about this dtype; the two of 16 bits are as fast on
    accelerators."""
    found = device.measured
    if found is None or found.dtype == dtype:
        return found
    return found if device.kind != "cpu" and found.dtype in HALF and dtype in HALF else None


def constant(name: str, state: str = "eager") -> float:
    """A constant of the estimate.

    Args:
        name: a key of `constants` in the data file.
        state: `eager`, or `compiled` where the blocks are compiled; constants that do not depend on it ignore it.

    Raises:
        KeyError: where there is no such constant.
    """
    entry = _speeds()["constants"][name]
    value: float = (entry[state] if isinstance(entry, dict) else entry)[0]
    return value
