"""Places components, or the blocks of one, on the devices of this process, and adds the transfers between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from accelerate.utils import send_to_device
from torch import nn


def place(pipeline: Any, program: dict[str, Any], devices: list[torch.device]) -> None:
    """Moves every component to its device; what lies elsewhere gets its inputs moved and its output brought back.

    The pipeline works where its first component is (diffusers' own rule for the execution device), so a denoiser on
    another device gives its output back to there: without that the scheduler's step would mix two devices.
    """
    modules = {name: module for name, module in pipeline.components.items() if isinstance(module, nn.Module)}
    places = {}
    for name, module in modules.items():
        component = program["components"].get(name) or {}
        numbers = {"": component.get("device") or 0, **(component.get("blocks") or {})}
        places[name] = {block: devices[number] for block, number in numbers.items()}
        for block in sorted(places[name], key=len):
            _move(module.get_submodule(block), places[name][block])
    if len(devices) == 1:
        return
    home = pipeline._execution_device
    for name, module in modules.items():
        own = places[name][""]
        for block, device in places[name].items():
            if block:
                _wrap(module.get_submodule(block), device, own)
        if own != home or len(places[name]) > 1:
            _wrap(module, own, home)


def _move(module: nn.Module, device: torch.device) -> None:
    """Moves what is not a DTensor yet; split parameters lie on their device already."""
    for part in module.modules():
        for parameter in part.parameters(recurse=False):
            if not hasattr(parameter, "placements"):
                parameter.data = parameter.data.to(device)
        for name, buffer in part.named_buffers(recurse=False):
            part._buffers[name] = buffer.to(device)


def _wrap(module: nn.Module, device: torch.device, home: torch.device) -> None:
    """Moves what goes into a module to its device, and what comes out to where the caller works."""
    for method in ("forward", "encode", "decode"):
        if callable(getattr(module, method, None)):
            setattr(module, method, _between(getattr(module, method), device, home))


def _between(method: Callable[..., Any], device: torch.device, home: torch.device) -> Callable[..., Any]:
    def moved(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = send_to_device(args, device), send_to_device(kwargs, device)
        return send_to_device(method(*args, **kwargs), home)

    return moved
