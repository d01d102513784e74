"""What is known about models and machines, as frozen types. Read from generated JSON; see `facts/registry.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any


@dataclass(frozen=True)
class TensorGroup:
    """Parameters of one shape. `name` may hold one `*`, which stands for `0 ... repeat-1` (blocks are stacked).

    `shape` is the parameter's.
    """

    name: str
    shape: tuple[int, ...]
    repeat: int = 1


@dataclass(frozen=True)
class TensorStyle:
    """How the library's plan splits one Linear: `colwise` splits dim 0, `rowwise` dim 1; `blocks` are the sizes of
    fused parts along that dim, each split on its own."""

    module: str
    style: str
    blocks: tuple[int, ...] = ()


def _matches(pattern: list[str], atoms: list[str]) -> bool:
    """Whether a plan's name of a module, in which `*` stands for a number, is this module's."""
    return len(pattern) == len(atoms) and all(
        wanted == atom or (wanted == "*" and atom.isdecimal()) for wanted, atom in zip(pattern, atoms, strict=True)
    )


@dataclass(frozen=True)
class ComponentFacts:
    """One component of a pipeline.

    Attributes:
        class_name: `FluxTransformer2DModel`.
        library: `diffusers` or `transformers`.
        config: the published `config.json` (without private keys).
        parameters: every parameter, tied ones once.
        tensor_plan: the class's own tensor-parallel plan; empty where it has none.
        heads: attention heads, where the class has them.
        blocks: dotted names of the stacked blocks, such as `transformer_blocks`, with their counts.
        context_plan: whether the class can run under context parallelism with the library's own plan.
        context_splits_text: whether that plan splits the text tokens too.
        no_split: classes that a device map must not cut.
        dtype: the published file's dtype, or None where it is not known.
        repeated_blocks: whether diffusers' `compile_repeated_blocks` knows the class's blocks.
        float32: modules that stay in float32: of diffusers in every dtype, of transformers in float16.
        unquantized: by method, the matrices named `weight` that quantizing leaves as they are, with `*` for numbers in
            their names; None where nobody could say.
        is_guessed: whether no file covers the class and it could not be asked either, so that it counts as one without
            plans.
        buffers: floating-point tensors that the weight file holds beside the parameters, such as SD3's `pos_embed`.
    """

    class_name: str
    library: str
    config: dict[str, Any]
    parameters: tuple[TensorGroup, ...]
    tensor_plan: tuple[TensorStyle, ...] = ()
    heads: int | None = None
    blocks: tuple[tuple[str, int], ...] = ()
    context_plan: bool = False
    context_splits_text: bool = False
    no_split: tuple[str, ...] = ()
    dtype: str | None = None
    repeated_blocks: bool = False
    float32: tuple[str, ...] = ()
    unquantized: dict[str, tuple[str, ...]] | None = None
    buffers: tuple[TensorGroup, ...] = ()
    is_guessed: bool = False

    def __hash__(self) -> int:
        """Of what tells components apart cheaply, so that what follows from one can be kept in a cache."""
        return hash((self.class_name, len(self.parameters)))

    @cached_property
    def styles(self) -> dict[str, TensorStyle]:
        """For each parameter (by its pattern) that the tensor plan names: how its Linear is split."""
        exact = {style.module: style for style in self.tensor_plan}
        patterns = [(style.module.split("."), style) for style in self.tensor_plan]
        found = {}
        for group in self.parameters:
            module, _, leaf = group.name.rpartition(".")
            style = exact.get(module)
            if style is None and leaf in ("weight", "bias"):
                atoms = module.split(".")
                style = next((style for pattern, style in patterns if _matches(pattern, atoms)), None)
            if style is not None and leaf in ("weight", "bias"):
                found[group.name] = style
        return found


@dataclass(frozen=True)
class ModelFacts:
    """One pipeline: its class, components, call arguments and token arithmetic.

    Attributes:
        tokens: numbers for the token formula: `{"spatial": 16, "frames": 0 or 4, "frames_patch": 1,
            "rounds_frames": 0, "multiple": 16, "text": 512, "text_default": 512, "text_limit": 512}`; `spatial` is
            pixels of one token's side, `frames` the temporal compression (0 for pictures), `frames_patch` the latent
            frames of one token, `rounds_frames` 1 where the pipeline rounds a length that is no multiple plus one,
            `multiple` what height and width must divide by (1 where they are floored), `floors` what they are floored
            to where that is more than a token's side, `text_default` the text tokens of a call that does not say,
            `text` the most that the pipeline takes (the default where it sets no limit), `text_limit` that limit or 0.
        guidance: `{"embedded": bool, "branches": "batched", "sequential" or None}`: whether the denoiser takes the
            guidance it was distilled with, and how a call runs the guided and the unguided branch, where it has two;
            `above` is the scale above which it does, where that is not 1.
        conditions: how large a reference picture becomes whose tokens join the sequence, or None; see
            `layout/tokens.py`.
        pictures: arguments of the call, pictures or videos, that it cannot do without.
        call_args: names of the pipeline's `__call__` arguments with their defaults (None where there is none).
        defaults: what a call uses when it is not told: `height`, `width`, `frames`, `steps`, `guidance`, `true_cfg`;
            and `fps`, the frames a second of the pipeline's own example, None for pictures.
        advised: what the model is published to be run with where that is not the pipeline's default, by the same names
            and by arguments of the call, with its `source`; `distilled` is true of a model that was made for few steps
            and one branch, and `least_steps` are the fewest that it is said to need.
        source: where the facts come from.
        pipeline_config: the pipeline's own settings in `model_index.json`, such as `boundary_ratio`.
    """

    id: str
    family: str
    pipeline: str
    components: dict[str, ComponentFacts]
    denoisers: tuple[str, ...]
    scheduler: dict[str, Any]
    tokens: dict[str, int]
    call_args: dict[str, Any]
    defaults: dict[str, Any]
    diffusers: str
    source: str
    pipeline_config: dict[str, Any] = field(default_factory=dict)
    guidance: dict[str, Any] = field(default_factory=lambda: {"embedded": False, "branches": None})
    conditions: dict[str, Any] | None = None
    pictures: tuple[str, ...] = ()
    advised: dict[str, Any] = field(default_factory=dict)

    def requires(self, own: Mapping[str, str]) -> dict[str, str]:
        """The versions that a verdict goes by: those that the facts are of, then what a recipe says itself."""
        return {"diffusers": self.diffusers, **dict(sorted(own.items()))}


@dataclass(frozen=True)
class MeasuredSpeed:
    """What a device was measured to do in one dtype, in operations, bytes and seconds; None where it was not."""

    dtype: str
    matmul_flops_per_second: float | None = None
    attention_flops_per_second: float | None = None
    memory_bytes_per_second: float | None = None
    host_seconds_per_block: float | None = None


MeasuredCurves = dict[str, dict[int, tuple[tuple[int, float], ...]]]
"""Of each collective, for each number of ranks: bytes and seconds, by size."""


@dataclass(frozen=True)
class HardwareFacts:
    """One kind of device. Sizes in bytes, speeds in bytes and operations a second, links in one direction.

    `flops_per_second` is of 16 bits, `float32_flops_per_second` without tensor cores, None where it is not known, as is
    `tf32_flops_per_second` where a device has no such products. `architecture` is what kernels are built for (`sm90`,
    `gfx942`), None where the device is in no table; `measured` is what the recipe says was measured on it.
    """

    name: str
    kind: str
    memory_bytes: int
    flops_per_second: float
    memory_bytes_per_second: float
    link: str
    link_bytes_per_second: float
    source: str
    float32_flops_per_second: float | None = None
    tf32_flops_per_second: float | None = None
    architecture: str | None = None
    measured: MeasuredSpeed | None = None
