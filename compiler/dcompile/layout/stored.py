"""How many bytes a component's weights take as the runtime stores them: in its dtype, in float32 where its class keeps
some so, quantized where the recipe says so.

Pure arithmetic; `tests/distributed/test_quantize.py` compares it with the storages of modules that were really
quantized.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from dcompile.facts.types import ComponentFacts, TensorGroup
from dcompile.layout.settings import component_dtype
from dcompile.layout.shard import KEPT, dtype_bytes, local_elements, parameter_shards, weight_bytes
from dcompile.recipe.model import Quantize, Recipe

Matrix = Callable[[int, int], int]
"""Bytes of one matrix by its rows (outputs) and columns (inputs)."""


def _eight_bits(bytes_of_row: int) -> Matrix:
    return lambda rows, columns: rows * (columns + bytes_of_row)


def _four_bits(rows: int, columns: int) -> int:
    """Two numbers a byte, a float32 scale for 64 of them, and the table of the sixteen values in float32."""
    count = rows * columns
    return -(-count // 2) + 4 * -(-count // 64) + 16 * 4


@dataclass(frozen=True)
class Kind:
    """One type: the bytes of a matrix, and those of each of its numbers while a layer computes, beside a copy of the
    matrix in the component's dtype."""

    stored: Matrix
    beside: int = 0


TYPES: Mapping[str, Mapping[str, Kind]] = {
    # torchao 0.18: a float32 scale a row, with an int8 zero point for integers (`int8_tensor.py`, `float8_tensor.py`).
    # Of float8 a layer makes two copies in float32 first (`quant_primitives.py:2368`).
    "torchao": {
        "int8wo": Kind(_eight_bits(5)),
        "float8wo": Kind(_eight_bits(4), beside=8),
        "float8wo_e5m2": Kind(_eight_bits(4), beside=8),
    },
    # bitsandbytes 0.50: `Int8Params.SCB` is a float32 a row; `QuantState` of blocks of 64, without double quantizing.
    "bitsandbytes": {"int8": Kind(_eight_bits(4)), "nf4": Kind(_four_bits), "fp4": Kind(_four_bits)},
}
"""The types of each method, the one first that is taken where the recipe names none."""


@dataclass(frozen=True)
class Storage:
    """How a component's weights are stored: the dtype it is loaded in, and how it is quantized, where it is."""

    dtype: str
    method: str | None = None
    type: str | None = None


def quantized_type(quantize: Quantize) -> str:
    """The type that the recipe names, or the first one of its method."""
    return quantize.type or next(iter(TYPES[quantize.method]))


def storage_of(recipe: Recipe, name: str, device_kind: str) -> Storage:
    """How one component of a job is stored; as if it were not quantized where there is no such type (DC400, DC430)."""
    dtype, own = component_dtype(recipe, name, device_kind), recipe.components.get(name)
    if own is None or own.quantize is None or own.quantize.method not in TYPES:
        return Storage(dtype)
    kind = quantized_type(own.quantize)
    return Storage(dtype, own.quantize.method, kind) if kind in TYPES[own.quantize.method] else Storage(dtype)


def is_quantized(component: ComponentFacts, group: TensorGroup, storage: Storage) -> bool:
    """Whether a method quantizes a parameter: the matrix of a linear layer that the library does not leave as it is.

    False also where nobody could say which layers are linear (DC434).
    """
    if storage.method is None or component.unquantized is None:
        return False
    if len(group.shape) != 2 or not group.name.endswith(".weight") or ".lora_" in group.name:
        return False  # an adapter's layers beside a quantized one keep their dtype
    pattern = re.sub(r"\d+", "*", group.name)
    left = component.unquantized.get(storage.method, ())
    # transformers names some modules in files with the class's own prefix before them: `text_model.embeddings`.
    return not any(pattern == name or pattern.endswith(f".{name}") for name in left)


@lru_cache(maxsize=KEPT)
def quantized_matrices(component: ComponentFacts, storage: Storage) -> tuple[int, int]:
    """How many weights of a component are quantized, and how many numbers they have."""
    groups = [group for group in component.parameters if is_quantized(component, group, storage)]
    return sum(group.repeat for group in groups), sum(group.repeat * prod(group.shape) for group in groups)


def element_bytes(component: ComponentFacts, name: str, dtype: str) -> int:
    """Bytes of one number of a parameter that is not quantized."""
    keeps = component.float32 if component.library == "diffusers" or dtype == "float16" else ()
    return 4 if keeps and not set(keeps).isdisjoint(name.split(".")) else dtype_bytes(dtype)


def _kind(storage: Storage) -> Kind:
    return TYPES[str(storage.method)][str(storage.type)]


@lru_cache(maxsize=KEPT)
def work_bytes(component: ComponentFacts, storage: Storage) -> int:
    """What the largest quantized matrix takes while its layer computes, beside the activations: it is unpacked."""
    if storage.method is None:
        return 0
    sizes = [prod(group.shape) for group in component.parameters if is_quantized(component, group, storage)]
    return max(sizes) * (dtype_bytes(storage.dtype) + _kind(storage).beside) if sizes else 0


def member_bytes(component: ComponentFacts, group: TensorGroup, storage: Storage) -> int:
    """Bytes of one whole parameter of a group."""
    if is_quantized(component, group, storage):
        return _kind(storage).stored(*group.shape)
    return prod(group.shape) * element_bytes(component, group.name, storage.dtype)


@lru_cache(maxsize=KEPT)
def stored_bytes(component: ComponentFacts, storage: Storage, degree: int = 1) -> int:
    """Bytes of the component's weights on one device under the class's own tensor-parallel plan, to the byte.

    What is quantized cannot be split (DC445) and counts whole.
    """
    if storage.method is None and not component.float32:
        return weight_bytes(component, dtype_bytes(storage.dtype), degree)
    shards, total = parameter_shards(component, degree), 0
    for group in (*component.parameters, *component.buffers):
        if is_quantized(component, group, storage):
            total += member_bytes(component, group, storage) * group.repeat
        else:
            held = local_elements(group, shards.get(group.name), degree)
            total += held * element_bytes(component, group.name, storage.dtype)
    return total
