"""What the report draws beside the plan's own numbers: matrices of the model, and the sequence that context splits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod

from dcompile.facts.types import ComponentFacts, TensorGroup
from dcompile.layout.placement import parts_of
from dcompile.layout.shard import dtype_bytes, local_elements
from dcompile.layout.stored import storage_of
from dcompile.layout.tokens import is_countable
from dcompile.lower.program import Program
from dcompile.plan.types import Plan


@dataclass(frozen=True)
class Layer:
    """One weight matrix of a component that `tensor` splits, and all that are like it.

    Attributes:
        component: the component's name.
        name: the parameter; `*` stands for the numbers of its blocks.
        shape: outputs and inputs.
        repeat: how many blocks have it.
        dim: the dim that is cut; None where every rank holds it whole.
        parts: the sizes of the fused parts along that dim, each of which is cut on its own.
        degree: ranks that share it.
        whole_bytes, held_bytes: of all its blocks, and of them what one rank holds.
    """

    component: str
    name: str
    shape: tuple[int, ...]
    repeat: int
    dim: int | None
    parts: tuple[int, ...]
    degree: int
    whole_bytes: int
    held_bytes: int


@dataclass(frozen=True)
class Stretch:
    """Tokens of one kind that a component sees, and the ranks that share them; 1 where each sees them all."""

    component: str
    kind: str
    tokens: int
    ranks: int

    @property
    def shares(self) -> tuple[int, ...]:
        """Tokens of each rank; the first get one more, as `torch.tensor_split` cuts."""
        each, extra = divmod(self.tokens, self.ranks)
        return tuple(each + (rank < extra) for rank in range(self.ranks))


@dataclass(frozen=True)
class Drawn:
    """Everything that is drawn and not in `plan.json`. `block_bytes` has the blocks of components that are cut."""

    layers: tuple[Layer, ...] = ()
    stretches: tuple[Stretch, ...] = ()
    block_bytes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def drawn_of(plan: Plan, program: Program) -> Drawn:
    """The largest matrix of each way to cut one, the lengths of the sequences that are split, the blocks of a cut."""
    subject = plan.checked.subject
    components, kind = subject.facts.model.components, subject.facts.devices.kind
    blocks = {
        name: parts_of(components[name], storage_of(subject.recipe, name, kind)).blocks
        for name, component in program["components"].items()
        if component.get("blocks")
    }
    return Drawn(tuple(_layers(plan, program)), tuple(_stretches(plan, program)), blocks)


def _layers(plan: Plan, program: Program) -> Iterator[Layer]:
    for name, component in program["components"].items():
        tensor = component.get("tensor")
        if tensor is None:
            continue
        largest: dict[tuple[int | None, int], Layer] = {}
        for layer in _matrices(name, plan.checked.subject.facts.model.components[name], tensor, component["dtype"]):
            way = layer.dim, len(layer.parts)
            if way not in largest or layer.whole_bytes > largest[way].whole_bytes:
                largest[way] = layer
        yield from largest.values()


def _matrices(name: str, facts: ComponentFacts, tensor: dict[str, object], dtype: str) -> Iterator[Layer]:
    """Every weight matrix of a component with its cut, as the program has it."""
    table, degree, size = tensor["parameters"], tensor["degree"], dtype_bytes(dtype)
    assert isinstance(table, dict)
    assert isinstance(degree, int)
    for group in facts.parameters:
        if len(group.shape) != 2:
            continue
        cut = table.get(group.name)
        shard = (cut["dim"], tuple(cut["parts"])) if cut else None
        yield _layer(name, group, shard, degree, size)


def _layer(name: str, group: TensorGroup, shard: tuple[int, tuple[int, ...]] | None, degree: int, size: int) -> Layer:
    return Layer(
        component=name,
        name=group.name,
        shape=group.shape,
        repeat=group.repeat,
        dim=shard[0] if shard else None,
        parts=shard[1] if shard else (),
        degree=degree,
        whole_bytes=prod(group.shape) * group.repeat * size,
        held_bytes=local_elements(group, shard, degree) * size,
    )


def _stretches(plan: Plan, program: Program) -> Iterator[Stretch]:
    subject = plan.checked.subject
    model, settings = subject.facts.model, subject.settings
    for name, component in program["components"].items():
        context = component.get("context")
        if context is None or not is_countable(model, bool(settings.picture_sizes)):
            continue
        ranks = context["ring"] * context["ulysses"]
        pixels = settings.sequence_tokens
        yield Stretch(name, "video" if settings.frames else "image", pixels, ranks)
        if settings.text_tokens:
            split = model.components[name].context_splits_text
            yield Stretch(name, "text", settings.text_tokens, ranks if split else 1)
