"""Places components, or the blocks of one, on the devices of this process, and adds the transfers between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from accelerate.utils import send_to_device
from torch import nn

from dcompile.runtime import library, quantize
from dcompile.runtime.at_home import AtHome
from dcompile.runtime.errors import RunError
from dcompile.runtime.offload import offloaded


def place(pipeline: Any, program: dict[str, Any], devices: list[torch.device]) -> torch.device:
    """Moves every component to its device; what lies elsewhere gets its inputs moved and its output brought back.

    The pipeline works where its first component is (diffusers' own rule for the execution device), so a denoiser on
    another device gives its output back to there: without that the scheduler's step would mix two devices. What is
    offloaded stays on the host.

    Returns:
        Where the pipeline works.
    """
    modules = {name: module for name, module in pipeline.components.items() if isinstance(module, nn.Module)}
    places = {name: _places(module, program["components"].get(name) or {}) for name, module in modules.items()}
    guests = offloaded(program)
    for name, module in modules.items():
        for part in sorted(places[name], key=len) if name not in guests else ():
            _move(module.get_submodule(part), devices[places[name][part]])
    if len(devices) == 1:
        return devices[0]
    home = devices[places[min(modules)][""]] if guests else library.execution_device(pipeline)
    for name, module in modules.items():
        own = devices[places[name][""]]
        if len(places[name]) > 1:
            wrap_parts(module, {part: devices[number] for part, number in places[name].items()}, home)
        elif own != home:
            _wrap(module, _between, own, home)
    return home


def _places(module: nn.Module, component: dict[str, Any]) -> dict[str, int]:
    """The device of the component (under the empty name) and of each of its parts that the plan places."""
    parts = {name for name, _ in module.named_modules()}
    blocks = component.get("blocks") or {}
    own = component.get("device") or 0
    for name, number in blocks.items():
        if name not in parts and number != own:
            raise RunError(f"the plan puts `{name}` on another device than its model, which has no such part")
    return {"": own, **{name: number for name, number in blocks.items() if name in parts}}


def wrap_parts(module: nn.Module, places: dict[str, torch.device], home: torch.device) -> None:
    """Adds the transfers to a component whose parts lie on several devices.

    Args:
        module: the component, every part on its device.
        places: the device of each part that is placed, and under the empty name that of the component's own code.
        home: the device to which what it makes is brought.
    """
    own = places[""]
    mode = AtHome(own)
    for part, device in places.items():
        holds_others = any(other.startswith(f"{part}.") for other in places)
        if part and not holds_others:
            _wrap(module.get_submodule(part), _part, device, mode)
    _wrap(module, _whole, own, home, mode)


def _move(module: nn.Module, device: torch.device) -> None:
    """Moves what is not a DTensor yet; split parameters lie on their device already."""
    for part in module.modules():
        for name, parameter in list(part.named_parameters(recurse=False)):
            if quantize.is_quantized(parameter):
                part._parameters[name] = quantize.moved(parameter, device)
            elif not hasattr(parameter, "placements"):
                parameter.data = parameter.data.to(device)
        for name, buffer in part.named_buffers(recurse=False):
            setattr(part, name, buffer.to(device))


def _wrap(module: nn.Module, around: Callable[..., Any], *where: Any) -> None:
    """Puts a transfer around each way to call a module."""
    for method in ("forward", "encode", "decode"):
        if callable(getattr(module, method, None)):
            setattr(module, method, around(getattr(module, method), *where))


def _between(method: Callable[..., Any], device: torch.device, home: torch.device) -> Callable[..., Any]:
    """A component elsewhere: its inputs are brought to it, and what it makes to where the pipeline works."""

    def moved(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = send_to_device(args, device), send_to_device(kwargs, device)
        return _brought(method(*args, **kwargs), home)

    return moved


def _whole(method: Callable[..., Any], own: torch.device, home: torch.device, mode: AtHome) -> Callable[..., Any]:
    """A component that is cut: its own code runs where its first device is."""

    def moved(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = send_to_device(args, own), send_to_device(kwargs, own)
        with mode.at_work():
            made = method(*args, **kwargs)
        return _brought(made, home)

    return moved


def _part(method: Callable[..., Any], device: torch.device, mode: AtHome) -> Callable[..., Any]:
    """A part of one: its inputs are brought to it, and what it makes stays until somebody needs it elsewhere."""

    def moved(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = mode.sent(args, device), mode.sent(kwargs, device)
        with mode.away():
            return method(*args, **kwargs)

    return moved


def _brought(made: Any, home: torch.device) -> Any:
    made = send_to_device(made, home)
    # What an autoencoder makes of an input picture is a distribution, which is no tensor and not moved as one.
    distribution = getattr(made, "latent_dist", None)
    for name, value in vars(distribution).items() if distribution is not None else ():
        setattr(distribution, name, send_to_device(value, home))
    return made
