"""What diffusers and transformers are told so that they quantize a component's weights while they load it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import diffusers
import torch
import transformers
from accelerate.hooks import remove_hook_from_module
from diffusers import PipelineQuantizationConfig
from torch import nn
from torch.utils._python_dispatch import is_traceable_wrapper_subclass


def config_of(component: dict[str, Any]) -> Any:
    """The library's own configuration for one component of the program; None where it is not quantized."""
    quantize = component["quantize"]
    if quantize is None:
        return None
    library = transformers if component["library"] == "transformers" else diffusers
    if quantize["method"] == "torchao":
        return library.TorchAoConfig(_torchao_type(quantize["type"]))
    if quantize["type"] == "int8":
        return library.BitsAndBytesConfig(load_in_8bit=True)
    return library.BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type=quantize["type"],
        bnb_4bit_compute_dtype=getattr(torch, component["dtype"]),
    )


def pipeline_config(components: dict[str, dict[str, Any]]) -> PipelineQuantizationConfig | None:
    """The configuration of the components that a pipeline's `from_pretrained` loads; None where none is quantized."""
    mapping = {name: config_of(component) for name, component in components.items() if component["quantize"]}
    return PipelineQuantizationConfig(quant_mapping=mapping) if mapping else None


def loads_on_device(component: dict[str, Any]) -> bool:
    """Whether a component's weights are quantized on their device, as bitsandbytes does on whichever is current."""
    return component["quantize"] is not None and component["quantize"]["method"] == "bitsandbytes"


def load(
    model_class: Any,
    place: Path | str,
    component: dict[str, Any],
    dtype: torch.dtype | None,
    variant: str | None,
    devices: list[torch.device],
) -> Any:
    """One component by its own class: on the host, or straight on its devices where bitsandbytes quantizes it.

    Args:
        model_class: of diffusers or transformers.
        place: its folder or hub id.
        component: what the program says of it.
        dtype: what its weights are loaded in.
        variant: of its weight files.
        devices: of this rank.
    """
    options = {"dtype": dtype, "variant": variant, "quantization_config": config_of(component)}
    if loads_on_device(component):
        blocks = component["blocks"] or {"": component["device"]}
        options["device_map"] = {name: devices[number] for name, number in blocks.items()}
    given = {key: value for key, value in options.items() if value is not None}
    model = model_class.from_pretrained(place, **given)
    # accelerate's own transfers between blocks: the runtime adds those that the plan has.
    remove_hook_from_module(model, recurse=True)
    return model


def _torchao_type(name: str) -> Any:
    from torchao.quantization import Float8WeightOnlyConfig, Int8WeightOnlyConfig

    if name == "int8wo":
        return Int8WeightOnlyConfig()
    return Float8WeightOnlyConfig(weight_dtype=torch.float8_e5m2 if name.endswith("_e5m2") else torch.float8_e4m3fn)


def is_quantized(parameter: nn.Parameter) -> bool:
    """Whether a parameter is of a quantizer's own kind, or a tensor around others: `data` of either cannot be set."""
    if hasattr(parameter, "placements"):
        return False  # a DTensor is around others too
    return type(parameter) is not nn.Parameter or is_traceable_wrapper_subclass(parameter)


def moved(parameter: nn.Parameter, device: torch.device) -> nn.Parameter:
    """A quantized parameter on another device, with its scales."""
    there = parameter.to(device)
    return there if isinstance(there, nn.Parameter) else nn.Parameter(there, requires_grad=False)


def at_rest(parameter: nn.Parameter, pinned: bool) -> nn.Parameter:
    """A quantized parameter of torchao on the host, each of its tensors in pinned memory where that is asked for."""
    held = moved(parameter, torch.device("cpu"))
    if not pinned:
        return held
    names, context = held.__tensor_flatten__()
    inside = {name: getattr(held, name).pin_memory() for name in names}
    whole = type(held.data).__tensor_unflatten__(inside, context, held.shape, held.stride())
    return nn.Parameter(whole, requires_grad=False)
