"""Counts the bytes of the storages that are alive while a module runs, on real or on fake tensors. Imports torch."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

Workspace = Callable[[Any, tuple[Any, ...], Any], int]
"""Bytes that an operator takes inside itself, from the operator, its arguments and its result."""


def together(pixels: torch.Tensor) -> Any:
    """The memory format of a tensor whose channels lie together; None where they do not."""
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(pixels.dim())
    is_last = last is not None and pixels.is_contiguous(memory_format=last) and not pixels.is_contiguous()
    return last if is_last else None


SMALL = 20480
"""A float32 convolution of one sample whose first four sizes multiply to no more goes through columns, not oneDNN:
`use_mkldnn` in torch 2.13's `aten/src/ATen/native/Convolution.cpp`."""


def cpu_convolution(func: Any, args: tuple[Any, ...], result: Any) -> int:
    """What a convolution takes inside itself on a CPU: copies of its input and weights, else its output in float32.

    An input whose channels lie together is not copied. Exact to 1 MB for 40 convolutions of one to three dims in
    float32 and bfloat16, as torch 2.13's profiler saw them on a machine with AVX-512 and two threads. With one thread a
    kernel of one pixel takes nothing in float32, and one that is long in time alone a copy of its input for each step.
    """
    if func is not torch.ops.aten.convolution.default:
        return 0
    pixels, weight, groups = args[0], args[1], args[8]
    kernel = weight.shape[2:]
    is_large = groups > 1 or min(kernel) > 3 or pixels.shape[0] > 1 or prod(pixels.shape[:4]) > SMALL
    if pixels.dtype is torch.float32 and not is_large:
        columns = prod(kernel) * pixels.shape[1] * prod(result.shape[2:])
        return 0 if max(kernel) == 1 else int(columns * pixels.itemsize)
    if together(pixels) is not None:
        return 2 * int(weight.nbytes)
    return int(max(pixels.nbytes + weight.nbytes, 4 * result.numel()))


class LiveStorages(TorchDispatchMode):  # type: ignore[misc]
    """A mode that sees every tensor that an operator makes; its storage counts until it is freed.

    Views share a storage and count once. What an operator takes and frees inside itself is not seen, but for what
    `workspace` says of it.

    Attributes:
        live_bytes: bytes alive now.
        peak_bytes: the most that were alive at once.
    """

    def __init__(self, workspace: Workspace | None = None) -> None:
        super().__init__()
        self.live_bytes = 0
        self.peak_bytes = 0
        self._workspace = workspace
        self._known: dict[int, weakref.ref[Any]] = {}

    def add(self, tensors: Any, counts: bool = True) -> None:
        """Registers tensors made outside: inputs, or, with `counts=False`, parameters that do not count."""
        for tensor in tree_leaves(tensors):
            if not isinstance(tensor, torch.Tensor):
                continue
            if hasattr(tensor, "_local_tensor"):  # a DTensor holds this rank's part
                tensor = tensor._local_tensor
            storage = tensor.untyped_storage()
            key = storage._cdata
            if key in self._known:
                continue
            size = storage.nbytes() if counts else 0
            self._known[key] = weakref.ref(storage, partial(self._free, key, size))
            self.live_bytes += size
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)

    def _free(self, key: int, size: int, _: Any) -> None:
        del self._known[key]
        self.live_bytes -= size

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs the operator and registers what it returns."""
        result = func(*args, **(kwargs or {}))
        self.add(result)
        if self._workspace is not None:
            self.peak_bytes = max(self.peak_bytes, self.live_bytes + self._workspace(func, args, result))
        return result
