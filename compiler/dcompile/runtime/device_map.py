"""Places components, or the blocks of one, on the devices of this process, and adds the transfers between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from accelerate.utils import send_to_device
from torch import nn


def place(pipeline: Any, program: dict[str, Any], devices: list[torch.device]) -> None:
    """Moves every component to its device; what lies elsewhere gets its inputs moved and its output brought back."""
    home = devices[0]
    for name, module in pipeline.components.items():
        if not isinstance(module, nn.Module):
            continue
        component = program["components"].get(name) or {}
        blocks, device = component.get("blocks"), devices[component.get("device") or 0]
        if blocks:
            place_blocks(module, {block: devices[number] for block, number in blocks.items()}, home)
            continue
        _move(module, device)
        if device != home:
            _wrap(module, device, home)


def place_blocks(module: nn.Module, places: dict[str, torch.device], home: torch.device) -> None:
    """Puts each block on its device; the longest prefix of a module's name decides, as in accelerate's device map."""
    own = places.get("", home)
    _move(module, own)
    for block in sorted(places, key=len):
        if block:
            _move(module.get_submodule(block), places[block])
    for block, device in places.items():
        if block:
            _wrap(module.get_submodule(block), device, own)
    _wrap(module, own, home)


def _move(module: nn.Module, device: torch.device) -> None:
    """Moves what is not a DTensor yet; split parameters lie on their device already."""
    for part in module.modules():
        for name, parameter in part.named_parameters(recurse=False):
            if not hasattr(parameter, "placements"):
                part.register_parameter(name, nn.Parameter(parameter.detach().to(device), requires_grad=False))
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
