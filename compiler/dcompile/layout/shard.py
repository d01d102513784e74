"""Which part of every parameter a device holds, and how many bytes that is. Pure arithmetic over facts."""

from __future__ import annotations

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
_SPLIT_DIM = {"colwise": 0, "packed_colwise": 0, "rowwise": 1, "packed_rowwise": 1}


def dtype_bytes(name: str) -> int:
    """Bytes of one element of a torch dtype, by its name.

    Raises:
        KeyError: where the name is none of a dtype.
    """
    return _DTYPE_BYTES[name]


def count_parameters(component: ComponentFacts) -> int:
    """Elements of all parameters, tied ones once."""
    return sum(prod(group.shape) * group.repeat for group in component.parameters)


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
    styles = {style.module: style for style in component.tensor_plan}
    shards = {}
    for group in component.parameters:
        module, _, leaf = group.name.rpartition(".")
        style = styles.get(module) or _style_of(module, component.tensor_plan)
        if style is None or leaf not in ("weight", "bias"):
            continue
        dim = _SPLIT_DIM[style.style]
        if dim < len(group.shape):
            shards[group.name] = (dim, _parts(style, group.shape[dim]))
    return shards


def _style_of(module: str, plan: tuple[TensorStyle, ...]) -> TensorStyle | None:
    atoms = module.split(".")
    for style in plan:
        pattern = style.module.split(".")
        if len(pattern) == len(atoms) and all(
            wanted == atom or (wanted == "*" and atom.isdecimal()) for wanted, atom in zip(pattern, atoms, strict=True)
        ):
            return style
    return None


def _parts(style: TensorStyle, size: int) -> tuple[int, ...]:
    """Absolute sizes of the fused parts; `blocks` may be sizes or proportions, as in the library."""
    if not style.blocks:
        return (size,)
    total = sum(style.blocks)
    return tuple(block * size // total for block in style.blocks)


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


def weight_bytes(component: ComponentFacts, bytes_per_element: int, degree: int = 1) -> int:
    """Bytes of the component's weights on one device under the class's own tensor-parallel plan, to the byte."""
    shards = parameter_shards(component, degree)
    held = sum(local_elements(group, shards.get(group.name), degree) for group in component.parameters)
    return held * bytes_per_element
