"""A component whose blocks lie on several devices: what goes between them, and no more.

accelerate's hooks move what goes into a module to its device and leave what comes out where it is; of a denoiser's own
code between its blocks they know nothing, and where that joins a block's output with something of another device, a
run stops (`hidden_states + controlnet_block_samples[i]`). Bringing every output back to where the caller works is safe
and sends the whole sequence there and back for each block. Here an output stays on its block's device, so the next
block on that device finds it there; and the component's own code runs in a mode that brings tensors home before an
operation would mix devices. What all blocks are given alike (the time, rotary tables, the text) goes to a device once
in a call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from accelerate.utils import send_to_device
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary

from dcompile.runtime.logical_devices import tensors_in

_ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")
_BITWISE = ("and", "or", "xor", "lshift", "rshift")
_WRITES = {"__setitem__", *(f"__i{name}__" for name in (*_ARITHMETIC, *_BITWISE))}
_MOVES = {torch.Tensor.to, torch.Tensor.type_as}
"""What is asked to go elsewhere goes there."""


class AtHome(TorchFunctionMode):  # type: ignore[misc]
    """While a component's own code runs: an operation on tensors of several devices has them all at home first.

    Operations that write into a tensor have the others come to it. Tensors in host memory stay there: devices take
    single numbers and indices from it.
    """

    def __init__(self, home: torch.device) -> None:
        super().__init__()
        self._home = home
        self._is_at_work = False
        # A copy lasts no longer than what it is a copy of: sequences between blocks are let go at once.
        self._copies: Any = WeakIdKeyDictionary()

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        writes = _writes(function)
        if writes:
            self._copies.clear()  # one of them may be a copy of what is written into
        if function not in _MOVES and len(set(_devices((args, kwargs)))) > 1:
            target = args[0].device if writes else self._home
            args, kwargs = send_to_device(args, target), send_to_device(kwargs, target)
        return function(*args, **kwargs)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """The component is called, perhaps by itself. Copies on other devices last no longer than the call."""
        if self._is_at_work:
            yield
            return
        with self:
            self._is_at_work = True
            try:
                yield
            finally:
                self._is_at_work = False
                self._copies.clear()

    @contextmanager
    def away(self) -> Iterator[None]:
        """A block is called, all of which is on one device: its code is not looked at."""
        if not self._is_at_work:
            yield
            return
        self.__exit__(None, None, None)
        self._is_at_work = False
        try:
            yield
        finally:
            self._is_at_work = True
            self.__enter__()

    def sent(self, value: Any, device: torch.device) -> Any:
        """What a block is given, on its device; what several are given is sent there once."""
        if isinstance(value, torch.Tensor):
            return self._sent(value, device)
        if type(value) in (list, tuple):
            return type(value)(self.sent(item, device) for item in value)
        if type(value) is dict:
            return {key: self.sent(item, device) for key, item in value.items()}
        return send_to_device(value, device)

    def _sent(self, tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
        if tensor.device == device:
            return tensor
        if not self._is_at_work:
            return tensor.to(device)
        copies: dict[torch.device, torch.Tensor] = self._copies.setdefault(tensor, {})
        if device not in copies:
            copies[device] = tensor.to(device)
        return copies[device]


def _writes(function: Callable[..., Any]) -> bool:
    """Whether a function writes into its first argument: `add_`, `x += y`, `x[0] = y`."""
    name = getattr(function, "__name__", "")
    return name in _WRITES or (name.endswith("_") and not name.endswith("__"))


def _devices(value: Any) -> Iterator[torch.device]:
    """The devices of the tensors of a call that are not in host memory."""
    for tensor in tensors_in(value):
        device = tensor.device
        if device.type != "cpu" or device.index is not None:  # with a number it is a logical device
            yield device
