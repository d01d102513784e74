"""Tensor parallelism with torch's public styles: parameters are placed first, then the hooks are added."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from typing import Any, Protocol

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from dcompile.runtime.errors import RunError


class Sliceable(Protocol):
    """A tensor in memory, or a safetensors slice that reads only what is asked for."""

    def __getitem__(self, index: Any) -> torch.Tensor: ...


class _HooksOnlyColwise(ColwiseParallel):  # type: ignore[misc]
    def _partition_linear_fn(self, name: str, module: nn.Module, device_mesh: DeviceMesh) -> None:
        """The weights are already `Shard(0)`."""


class _HooksOnlyRowwise(RowwiseParallel):  # type: ignore[misc]
    def _partition_linear_fn(self, name: str, module: nn.Module, device_mesh: DeviceMesh) -> None:
        """The weight is already `Shard(1)`, its bias whole."""


_STYLES = {
    "colwise": _HooksOnlyColwise,
    "packed_colwise": _HooksOnlyColwise,
    "rowwise": _HooksOnlyRowwise,
    "packed_rowwise": _HooksOnlyRowwise,
}


def expand(patterns: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """`{name: value}` for the names that a pattern matches; a pattern that matches none is an error."""
    names = list(names)
    expanded: dict[str, Any] = {}
    for pattern, value in patterns.items():
        matches = [name for name in names if _matches(pattern, name)]
        if not matches:
            raise RunError(f"the plan splits `{pattern}`, and the model has no such part")
        expanded |= dict.fromkeys(matches, value)
    return expanded


def _matches(pattern: str, name: str) -> bool:
    parts, atoms = pattern.split("."), name.split(".")
    return len(parts) == len(atoms) and all(map(fnmatch.fnmatchcase, atoms, parts))


def local_shard(tensor: Sliceable, dim: int, parts: list[int], rank: int, degree: int) -> torch.Tensor:
    """This rank's slice: each of the fused `parts` of `dim` is split on its own, and the slices are joined."""
    pieces, start = [], 0
    for size in parts:
        if size % degree:
            raise RunError(f"a part of {size} along dim {dim} cannot be split evenly over {degree} ranks")
        chunk = size // degree
        first = start + rank * chunk
        index = (slice(first, first + chunk),) if dim == 0 else (slice(None), slice(first, first + chunk))
        pieces.append(tensor[index])
        start += size
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=dim)


def placed(local: torch.Tensor, mesh: DeviceMesh, dim: int | None) -> nn.Parameter:
    """A parameter that is split over the mesh along `dim`, or whole on every rank."""
    placement = Replicate() if dim is None else Shard(dim)
    tensor = DTensor.from_local(local.contiguous(), mesh, [placement], run_check=False)
    return nn.Parameter(tensor, requires_grad=False)


def styled_modules(model: nn.Module, layout: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The modules that get hooks, by name.

    Raises:
        RunError: where the plan splits nothing, which would be one whole model on every rank.
    """
    if not layout["styles"]:
        raise RunError(f"the plan splits no part of {type(model).__name__} by `tensor`")
    return expand(layout["styles"], (name for name, _ in model.named_modules()))


def whole_parameters(model: nn.Module, layout: dict[str, Any]) -> set[str]:
    """Parameters of styled modules that stay whole, as DTensors (the bias of a rowwise layer)."""
    split = expand(layout["parameters"], (name for name, _ in model.named_parameters()))
    names = {
        f"{module}.{name}"
        for module in styled_modules(model, layout)
        for name, _ in model.get_submodule(module).named_parameters()
    }
    return names - split.keys()


def set_parameter(model: nn.Module, name: str, parameter: nn.Parameter) -> None:
    """Replaces a parameter by its dotted name."""
    owner, _, leaf = name.rpartition(".")
    model.get_submodule(owner).register_parameter(leaf, parameter)


def shard_in_memory(model: nn.Module, layout: dict[str, Any], mesh: DeviceMesh, device: torch.device) -> None:
    """Splits a model that is whole in memory (a fused LoRA, a single file), one parameter at a time."""
    rank, degree = mesh.get_local_rank(), mesh.size()
    split = expand(layout["parameters"], (name for name, _ in model.named_parameters()))
    whole = whole_parameters(model, layout)
    for name, parameter in list(model.named_parameters()):
        if name in split:
            dim, parts = split[name]["dim"], split[name]["parts"]
            local = local_shard(parameter.detach(), dim, parts, rank, degree).clone().to(device)
            set_parameter(model, name, placed(local, mesh, dim))
        elif name in whole:
            set_parameter(model, name, placed(parameter.detach().to(device), mesh, None))
    apply_hooks(model, layout, mesh)


def apply_hooks(model: nn.Module, layout: dict[str, Any], mesh: DeviceMesh) -> None:
    """Adds the transfers around every split layer; its parameters have to be placed already."""
    model.save_pretrained = _refuse_saving
    for name, style in styled_modules(model, layout).items():
        parallelize_module(model.get_submodule(name), mesh, _STYLES[style["style"]]())


def _refuse_saving(*_: Any, **__: Any) -> None:
    """What `save_pretrained` of a split model does.

    Raises:
        RunError: always; one rank's slices under the name of the whole would be wrong in silence.
    """
    raise RunError("a model that `tensor` splits cannot be saved: each rank has its slices only")
