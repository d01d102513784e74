"""Several devices of one process on a machine that has none: computes on the CPU, and keeps the books of a GPU box.

Each tensor that was put on `cpu:N` carries that logical device; what was never moved is on the host (`cpu`). An
operation that mixes two devices is refused as CUDA refuses it, host scalars and host indices apart, so a transfer that
is missing fails here as it would fail there.

What it uses of torch that is not public (wrappers of tensors) was tried with the versions of `library.TRIED_WITH`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.distributed.tensor import DTensor
from torch.overrides import TorchFunctionMode, handle_torch_function, has_torch_function
from torch.utils.weak import WeakIdKeyDictionary

from dcompile.runtime.errors import RunError

HOST = torch.device("cpu")
_MOVES = {torch.Tensor.to, torch.Tensor.type_as, torch.Tensor.cpu, torch.Tensor.copy_}
_INDEXING = {torch.Tensor.__getitem__, torch.Tensor.__setitem__, torch.Tensor.index_put_, torch.Tensor.index_select}
_ASKS_ABOUT = {torch._has_compatible_shallow_copy_type, torch.Tensor.is_same_size}
_TO_NUMPY = {torch.Tensor.numpy, torch.Tensor.__array__}


class LogicalDevices(TorchFunctionMode):  # type: ignore[misc]
    """While it is entered, `cpu:0`, `cpu:1` ... are devices of their own."""

    def __init__(self) -> None:
        super().__init__()
        self._places: Any = WeakIdKeyDictionary()
        self.transfers = 0

    def where(self, tensor: torch.Tensor) -> torch.device:
        """The logical device of a tensor; one that `vmap` has wrapped is where the tensor inside is."""
        return self._places.get(_inside(tensor), HOST)

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(function, "__name__", "")
        if name == "__get__" and getattr(function, "__self__", None) is torch.Tensor.device:
            return self.where(args[0])
        if name == "__get__":
            return self._placed(function(*args, **kwargs), self.where(args[0]))
        if name == "__set__" and isinstance(args[1], torch.Tensor):
            function(*args, **kwargs)
            return self._placed(args[0], self.where(args[1]))
        if function in _TO_NUMPY and self.where(args[0]) != HOST:
            raise RunError(f"a tensor on {self.where(args[0])} is read as a NumPy array: move it to the host first")
        if function in _MOVES:
            return self._move(function, args, kwargs)
        wanted = kwargs.get("device")
        if wanted is not None:
            kwargs["device"] = HOST
            target = torch.device(wanted)
        else:
            target = self._common(function, args, kwargs)
        return self._placed(function(*args, **kwargs), target)

    def _move(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tensor, rest = args[0], list(args[1:])
        if function is torch.Tensor.copy_:
            return function(*args, **kwargs)
        target = HOST if function is torch.Tensor.cpu else self.where(tensor)
        if kwargs.get("device") is not None:
            target = torch.device(kwargs.pop("device"))
        for position, value in enumerate(rest):
            if isinstance(value, torch.Tensor):
                target = self.where(value)
            elif isinstance(value, str | torch.device):
                target = torch.device(value)
                rest[position] = HOST
        moved = function(tensor, *rest, **kwargs)
        if target != self.where(tensor):
            self.transfers += 1
            if moved is tensor:
                moved = tensor.detach()
        return self._placed(moved, target)

    def _common(self, function: Callable[..., Any], args: Any, kwargs: Any) -> torch.device:
        """The one device of an operation's tensors.

        Raises:
            RunError: where they lie on two.
        """
        tensors = list(tensors_in((args, kwargs)))
        if function in _INDEXING:
            tensors = [tensors[0], *(one for one in tensors[1:] if not _is_whole_number(one))]
        placed = [tensor for tensor in tensors if self.where(tensor) != HOST]
        if not placed or function in _ASKS_ABOUT:
            return self.where(tensors[0]) if tensors else HOST
        target = self.where(placed[0])
        for position, tensor in enumerate(tensors):
            is_free = tensor.dim() == 0 or (function in _INDEXING and position > 0)
            place = self.where(tensor)
            if place != target and not (place == HOST and is_free):
                name = getattr(function, "__name__", str(function))
                raise RunError(
                    f"`{name}` mixes tensors on the devices {target} and {place}: a transfer between them is missing"
                )
        return target

    def _placed(self, result: Any, device: torch.device) -> Any:
        for tensor in map(_inside, tensors_in(result)):
            if device == HOST:
                self._places.pop(tensor, None)
            else:
                self._places[tensor] = device
        return result


def as_one_operation(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is looked at as one operation: what it does inside (compiling itself) cannot be followed."""

    def operation(*args: Any, **kwargs: Any) -> Any:
        tensors = tuple(tensors_in((args, kwargs)))
        if has_torch_function(tensors):
            return handle_torch_function(operation, tensors, *args, **kwargs)
        return function(*args, **kwargs)

    return operation


def _inside(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself, without the wrappers of `vmap` and of a collective that is not waited for yet; of one that is
    split over ranks, this rank's part."""
    while torch._C._functorch.is_batchedtensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    if isinstance(tensor, DTensor):
        tensor = tensor._local_tensor
    if isinstance(tensor, AsyncCollectiveTensor):
        tensor = tensor.elem
    return tensor


def _is_whole_number(tensor: torch.Tensor) -> bool:
    """Whether an index is read as a number, wherever it lies."""
    return tensor.dim() == 0 and not tensor.is_floating_point()


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """The tensors of an operation's arguments or results, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)
