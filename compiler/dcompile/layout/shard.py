"""Which part of every parameter a device holds, and how many bytes that is. Pure arithmetic over facts."""

from __future__ import annotations

from functools import lru_cache
from math import prod

from dcompile.facts.types import ComponentFacts, TensorGroup, TensorStyle

_DTYPE_BYTES = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
}
KEPT = 4096
"""Results that are kept: a search for a plan asks for the same ones a thousand times."""
_SPLIT_DIM = {"colwise": 0, "packed_colwise": 0, "rowwise": 1, "packed_rowwise": 1}


def dtype_bytes(name: str) -> int:
    """Bytes of one element of a torch dtype, by its name.

    Raises:
        KeyError: where the name is none of a dtype.
    """
    return _DTYPE_BYTES[name]


@lru_cache(maxsize=KEPT)
def count_parameters(component: ComponentFacts) -> int:
    """Elements of all parameters, tied ones once."""
    return sum(prod(group.shape) * group.repeat for group in component.parameters)


@lru_cache(maxsize=KEPT)
def count_weights(component: ComponentFacts) -> int:
    """Numbers that the component's weight file holds: parameters, tied ones once, and saved buffers."""
    buffers = sum(prod(group.shape) * group.repeat for group in component.buffers)
    return count_parameters(component) + buffers


@lru_cache(maxsize=KEPT)
def parameter_shards(component: ComponentFacts, degree: int) -> dict[str, tuple[int, tuple[int, ...]]]:
    """The parameters that the class's own tensor-parallel plan splits.

    Args:
        component: the facts of the component.
        degree: devices that share each parameter; at 1 nothing is split.

    Returns:
        Parameter pattern to the dim that is split and the whole sizes of the fused parts along it, each of which is
        split on its own. A parameter that is absent is whole on every device; so is the bias of a rowwise layer.
    """
    if degree == 1:
        return {}
    shards = {}
    for group in component.parameters:
        style = component.styles.get(group.name)
        if style is not None and (dim := _SPLIT_DIM[style.style]) < len(group.shape):
            shards[group.name] = (dim, _parts(style, group.shape[dim]))
    return shards


@lru_cache(maxsize=KEPT)
def active_styles(component: ComponentFacts) -> tuple[TensorStyle, ...]:
    """The styles of the class's tensor plan whose stacks this model has: some have no single blocks."""
    names = [group.name for group in component.parameters]

    def has_stack(style: TensorStyle) -> bool:
        stack, star, _ = style.module.partition(".*")
        return not star or any(name.startswith(f"{stack}.") for name in names)

    return tuple(style for style in component.tensor_plan if has_stack(style))


@lru_cache(maxsize=KEPT)
def missing_weights(component: ComponentFacts) -> tuple[str, ...]:
    """Layers that the tensor plan splits and the model's files have no weight of."""
    found = {style.module for name, style in component.styles.items() if name.endswith(".weight")}
    return tuple(style.module for style in active_styles(component) if style.module not in found)


def _parts(style: TensorStyle, size: int) -> tuple[int, ...]:
    """Absolute sizes of the fused parts; `blocks` may be sizes or proportions, as in the library."""
    if not style.blocks:
        return (size,)
    total = sum(style.blocks)
    return tuple(block * size // total for block in style.blocks)


@lru_cache(maxsize=KEPT)
def undivided(component: ComponentFacts, degree: int) -> list[tuple[str, int]]:
    """The parameters that the plan would split but cannot: pattern and the size that `degree` does not divide."""
    return [
        (name, part)
        for name, (_, parts) in parameter_shards(component, degree).items()
        for part in parts
        if part % degree
    ]


def local_elements(group: TensorGroup, shard: tuple[int, tuple[int, ...]] | None, degree: int) -> int:
    """Elements of one group that a device holds; the largest share where a part does not divide."""
    whole = prod(group.shape)
    if shard is None:
        return whole * group.repeat
    dim, parts = shard
    held = sum(-(-part // degree) for part in parts)
    return whole // group.shape[dim] * held * group.repeat


@lru_cache(maxsize=KEPT)
def weight_bytes(component: ComponentFacts, bytes_per_element: int, degree: int = 1) -> int:
    """Bytes of the component's weights in one dtype on one device, under the class's own tensor-parallel plan.

    Saved buffers are whole on every device. What the runtime stores may differ: `layout/stored.py`.
    """
    shards, held = parameter_shards(component, degree), 0
    for group in (*component.parameters, *component.buffers):
        held += local_elements(group, shards.get(group.name), degree)
    return held * bytes_per_element
