"""What `parallel` says, component by component, with its defaults filled in: pure arithmetic over recipe and facts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

from dcompile.facts.types import ModelFacts
from dcompile.recipe.model import Adapter, ComponentParallel, Context, Parallel, Recipe, Tensor

AXES = ("data", "cfg", "ring", "ulysses", "tensor")
"""Axes of the mesh, slowest first: what talks most (`tensor`, `ulysses`) has neighbouring ranks."""


@dataclass(frozen=True)
class Split:
    """How one component is split.

    Attributes:
        tensor, ring, ulysses: degrees, 1 where the component is not split that way.
        plan: the tensor plan that was asked for, or None.
        uneven: lengths need not divide.
        devices: the devices of the rank it lies on; empty where nothing says (packed, or device 0).
        offload: whether its weights rest in host memory and are on their device only while it is called.
        where: the recipe's path of the split, for diagnostics.
    """

    tensor: int = 1
    plan: str | None = None
    ring: int = 1
    ulysses: int = 1
    uneven: bool = False
    devices: tuple[int, ...] = ()
    offload: bool = False
    where: tuple[str | int, ...] = ("parallel",)

    @property
    def context(self) -> int:
        """Ranks that share one sequence."""
        return self.ring * self.ulysses


@dataclass(frozen=True)
class Splits:
    """How the whole pipeline is split; `mesh` holds the axes above degree 1, slowest first."""

    data: int = 1
    balanced: bool = False
    device_map: bool = False
    named_devices: int = 1
    components: dict[str, Split] = field(default_factory=dict)

    @cached_property
    def mesh(self) -> dict[str, int]:
        """Degree of each axis above 1, slowest first. Components share axes: the largest degree counts."""
        degrees = {"data": self.data, "cfg": 1}
        for axis in ("ring", "ulysses", "tensor"):
            degrees[axis] = max((getattr(split, axis) for split in self.components.values()), default=1)
        return {axis: degrees[axis] for axis in AXES if degrees[axis] > 1}

    @property
    def is_one_mesh(self) -> bool:
        """Whether all components that `context` splits, and all that `tensor` splits, are split by the same degrees."""
        context = {(split.ring, split.ulysses) for split in self.components.values() if split.context > 1}
        return len(context) < 2 and len({split.tensor for split in self.components.values() if split.tensor > 1}) < 2

    @cached_property
    def offloaded(self) -> frozenset[str]:
        """The components whose weights rest in host memory."""
        return frozenset(name for name, split in self.components.items() if split.offload)

    @cached_property
    def ranks(self) -> int:
        """Processes that are started: the product of all axes."""
        return prod(self.mesh.values())


def _degrees(tensor: int | Tensor | None, context: Context | None, base: Split, where: tuple[str | int, ...]) -> Split:
    if isinstance(tensor, int):
        base = replace(base, tensor=tensor, where=(*where, "tensor"))
    elif tensor is not None:
        base = replace(base, tensor=tensor.degree, plan=tensor.plan, where=(*where, "tensor"))
    if context is not None:
        base = replace(
            base, ring=context.ring, ulysses=context.ulysses, uneven=context.uneven, where=(*where, "context")
        )
    return base


def split_components(recipe: Recipe, model: ModelFacts) -> Splits:
    """Fill in what `parallel` leaves open: the denoisers take the top-level split, the rest is replicated."""
    parallel = recipe.parallel if isinstance(recipe.parallel, Parallel) else Parallel()
    components: dict[str, Split] = {}
    for name in component_names(recipe, model):
        split = Split()
        own = parallel.components.get(name, ComponentParallel())
        where: tuple[str | int, ...] = ("parallel", "components", name)
        if name in model.denoisers and own.tensor is None and own.context is None:
            split = _degrees(parallel.tensor, parallel.context, split, ("parallel",))
        split = _degrees(own.tensor, own.context, split, where)
        if own.device is not None:
            split = replace(split, devices=(own.device,))
        if own.offload == "model":
            split = replace(split, offload=True)
        if isinstance(parallel.device_map, dict) and name in parallel.device_map:
            at = parallel.device_map[name]
            split = replace(split, devices=(at,) if isinstance(at, int) else at, where=("parallel", "device_map", name))
        components[name] = split
    named = [device for split in components.values() for device in split.devices]
    return Splits(
        data=parallel.data or 1,
        balanced=parallel.device_map == "balanced",
        device_map=parallel.device_map is not None,
        named_devices=max(named, default=0) + 1,
        components=components,
    )


def component_names(recipe: Recipe, model: ModelFacts) -> tuple[str, ...]:
    """The pipeline's components with parameters, without those that the recipe leaves out (`null`)."""
    left_out = {name for name, component in recipe.components.items() if component is None}
    return tuple(name for name in model.components if name not in left_out)


def is_merged(adapter: Adapter, splits: Splits) -> bool:
    """Whether an adapter goes into the weights: where the recipe says so, and unless it says not under `tensor`.

    Layers of an adapter cannot stay in a component that is split by `tensor`, and a file may change several.
    """
    return any(split.tensor > 1 for split in splits.components.values()) if adapter.fuse is None else adapter.fuse
