"""Components whose weights rest in host memory: on their device while they are called, one at a time.

accelerate's hook for this (`CpuOffload`, 1.15) copies weights back to the host each time, and a model leaves only when
the next one of a fixed order is called. Weights do not change between calls, so here leaving is letting go of the
device's copy; and whichever component is called next, the guest leaves first. The hooks are accelerate's own kind:
diffusers asks them where the pipeline works (`_execution_device`) and calls them before `encode` and `decode`
(`apply_forward_hook`), both in 0.42.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from accelerate.hooks import ModelHook, add_hook_to_module
from accelerate.utils import send_to_device
from accelerate.utils.memory import clear_device_cache
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement

from dcompile.runtime import quantize

HOST = torch.device("cpu")


@dataclass(frozen=True)
class _Part:
    """A weight that is split over ranks: this rank's part of it, at rest, and how it is put together again."""

    owner: nn.Module
    name: str
    resting: nn.Parameter
    mesh: DeviceMesh
    placements: tuple[Placement, ...]


class Guest:
    """An offloaded component: its weights on the host, and how they come to the device and leave it.

    On an accelerator the resting weights are in pinned memory: copies from there are several times as fast. Of a weight
    that is split over ranks each rank keeps its own part; as long as it rests, the part alone stands in the module. A
    quantized weight is several tensors in one, whose `data` cannot be set: the parameter itself is changed for another.
    """

    def __init__(self, module: nn.Module, device: torch.device) -> None:
        self.device = device
        self._module = module
        self._parts: list[_Part] = []
        self._quantized: list[tuple[nn.Module, str, nn.Parameter]] = []
        self._resting: list[tuple[nn.Parameter, torch.Tensor, int]] = []
        self._buffers: list[tuple[nn.Module, str, torch.Tensor, torch.Tensor]] = []
        known: dict[int, nn.Parameter] = {}
        for owner in module.modules():
            for name, parameter in list(owner.named_parameters(recurse=False)):
                if isinstance(parameter, DTensor):
                    local = known.setdefault(
                        id(parameter), nn.Parameter(self._at_rest(parameter.to_local()), requires_grad=False)
                    )
                    self._parts.append(_Part(owner, name, local, parameter.device_mesh, tuple(parameter.placements)))
                elif quantize.is_quantized(parameter):
                    resting = known.setdefault(
                        id(parameter), quantize.at_rest(parameter, pinned=self.device.type != "cpu")
                    )
                    self._quantized.append((owner, name, resting))
                else:
                    parameter.data = self._at_rest(parameter.data)
            for name, buffer in list(owner.named_buffers(recurse=False)):
                owner._buffers[name] = buffer.to(HOST)
        self._lay_down_parts()

    def _at_rest(self, tensor: torch.Tensor) -> torch.Tensor:
        held = tensor.detach().to(HOST)
        return held if self.device.type == "cpu" else held.pin_memory()

    def _lay_down_parts(self) -> None:
        for part in self._parts:
            part.owner.register_parameter(part.name, part.resting)
        for owner, name, resting in self._quantized:
            owner._parameters[name] = resting

    def come(self) -> None:
        """Brings the weights to the device. What rests stays where it is."""
        # Not as tensors of inference mode, in which a script may call the pipeline: a parameter cannot hold one.
        with torch.inference_mode(False):
            joined: dict[int, nn.Parameter] = {}
            for part in self._parts:
                if id(part.resting) not in joined:
                    local = part.resting.detach().to(self.device, non_blocking=True)
                    whole = DTensor.from_local(local, part.mesh, part.placements, run_check=False)
                    joined[id(part.resting)] = nn.Parameter(whole, requires_grad=False)
                part.owner.register_parameter(part.name, joined[id(part.resting)])
            for owner, name, resting in self._quantized:
                owner._parameters[name] = joined.setdefault(id(resting), quantize.moved(resting, self.device))
            for parameter in self._module.parameters():
                if isinstance(parameter, DTensor) or quantize.is_quantized(parameter):
                    continue
                resting = parameter.data
                parameter.data = resting.to(self.device, non_blocking=True)
                self._resting.append((parameter, resting, parameter.data_ptr()))
            moved: dict[int, torch.Tensor] = {}
            for owner in self._module.modules():
                for name, buffer in owner.named_buffers(recurse=False):
                    here = moved.setdefault(id(buffer), buffer.to(self.device, non_blocking=True))
                    owner._buffers[name] = here
                    self._buffers.append((owner, name, buffer, here))

    def leave(self) -> None:
        """Lets go of the device's copy. What the pipeline changed meanwhile is carried back: SDXL casts its VAE."""
        with torch.inference_mode(False):
            self._lay_down_parts()
            for parameter, resting, address in self._resting:
                is_unchanged = parameter.data_ptr() == address and parameter.dtype == resting.dtype
                parameter.data = resting if is_unchanged else parameter.data.to(HOST)
            for owner, name, resting, here in self._buffers:
                now = owner._buffers[name]
                owner._buffers[name] = resting if now is here or now is None else now.to(HOST)
        self._resting, self._buffers = [], []
        clear_device_cache()


class House:
    """The devices of this rank, on which there is at most one guest."""

    def __init__(self) -> None:
        self._guest: Guest | None = None

    def call(self, guest: Guest | None) -> None:
        """A component is about to be called: `guest` where it is an offloaded one, None for one that stays."""
        if guest is self._guest:
            return
        if self._guest is not None:
            self._guest.leave()
        if guest is not None:
            guest.come()
        self._guest = guest


class CallHook(ModelHook):  # type: ignore[misc]
    """Tells the house who is called. `execution_device` is where the pipeline works, which diffusers reads."""

    def __init__(self, house: House, guest: Guest | None, execution_device: torch.device) -> None:
        self.execution_device = execution_device
        self._house, self._guest = house, guest

    def pre_forward(self, module: nn.Module, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Before `forward`, and before `encode` and `decode` of an autoencoder, which keep their own arguments."""
        self._house.call(self._guest)
        if self._guest is None:
            return args, kwargs
        # Some pipelines send a text to where its encoder is: to the host, as long as it rests.
        return send_to_device(args, self._guest.device), send_to_device(kwargs, self._guest.device)


def offloaded(program: dict[str, Any]) -> set[str]:
    """The components whose weights rest on the host."""
    return {name for name, component in program["components"].items() if component.get("offload")}


def apply(
    pipeline: Any, program: dict[str, Any], devices: list[torch.device], home: torch.device, guests: dict[str, Guest]
) -> None:
    """Hooks every component, the last hooks of all: a split of its sequence has to be inside.

    Args:
        pipeline: the pipeline, with everything that is not offloaded on its device.
        program: the plan's program.
        devices: of this rank.
        home: the device on which the pipeline works.
        guests: offloaded components that rest already.
    """
    names = offloaded(program)
    if not names:
        return
    house = House()
    for name, module in pipeline.components.items():
        if isinstance(module, nn.Module):
            guest = guests.get(name)
            if guest is None and name in names:
                guest = Guest(module, devices[program["components"][name]["device"]])
            add_hook_to_module(module, CallHook(house, guest, home))
