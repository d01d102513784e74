"""What is known about models and machines, as frozen types. Read from generated JSON; see `facts/registry.py`."""

from __future__ import annotations

from dataclasses import dataclass, field
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


@dataclass(frozen=True)
class ModelFacts:
    """One pipeline: its class, components, call arguments and token arithmetic.

    Attributes:
        tokens: numbers for the token formula: `{"spatial": 16, "frames": 0 or 4, "multiple": 16, "text": 512,
            "text_default": 512}`; `spatial` is pixels of one token's side, `frames` the temporal compression (0 for
            pictures), `multiple` what height and width must divide by (1 where they are floored), `text_default`
            the text tokens of a call that does not say, `text` the most that the pipeline takes (the default where it
            sets no limit), `text_limit` that limit or 0.
        call_args: names of the pipeline's `__call__` arguments with their defaults (None where there is none).
        defaults: what a call uses when it is not told: `height`, `width`, `frames`, `steps`, `guidance`, `true_cfg`.
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


@dataclass(frozen=True)
class HardwareFacts:
    """One kind of device. Sizes in bytes, speeds in bytes and operations a second, links in one direction."""

    name: str
    kind: str
    memory_bytes: int
    flops_per_second: float
    memory_bytes_per_second: float
    link: str
    link_bytes_per_second: float
    source: str
