"""Which weights quantizing leaves as they are, by the libraries' own criteria; a part of `facts/generate.py`.

diffusers and transformers quantize the weights of linear layers. What they leave out depends on the library, the
method and the class: embeddings, heads, what is kept in float32.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import diffusers
import torch
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear
from transformers.quantizers.base import get_keys_to_not_convert
from transformers.quantizers.quantizers_utils import should_convert_module


def kept_float32(model: Any) -> list[str]:
    """The modules that a class keeps in float32: diffusers in every dtype, transformers where float16 is asked for.

    Raises:
        ValueError: where a class keeps some in every dtype and the others not, which no class that is described does.
    """
    if getattr(model, "_keep_in_fp32_modules_strict", None):
        raise ValueError(f"{type(model).__name__} keeps modules in float32 that bfloat16 does not cast either")
    return sorted(model._keep_in_fp32_modules or [])


def unquantized(model: Any) -> dict[str, list[str]]:
    """By method, the matrices named `weight` that it leaves as they are, with `*` for numbers in their names.

    A method that leaves none is not there.
    """
    criteria = _of_diffusers(model) if isinstance(model, diffusers.ModelMixin) else _of_transformers(model)
    matrices = [
        name for name, tensor in model.named_parameters() if tensor.dim() == 2 and name.rpartition(".")[2] == "weight"
    ]
    left = {
        method: sorted({re.sub(r"\d+", "*", name) for name in matrices if not is_quantized(name)})
        for method, is_quantized in criteria.items()
    }
    return {method: names for method, names in left.items() if names}


def _is_linear(module: torch.nn.Module) -> bool:
    """Whether torchao takes a module for a linear layer: not that of torch's own attention (0.18, `quant_api.py`)."""
    return isinstance(module, torch.nn.Linear) and not isinstance(module, NonDynamicallyQuantizableLinear)


def _of_diffusers(model: Any) -> dict[str, Callable[[str], bool]]:
    """diffusers 0.42.1, `torchao_quantizer.py:322` and `bitsandbytes/utils.py:66`."""
    kept = kept_float32(model)

    def torchao(name: str) -> bool:
        linear = _is_linear(model.get_submodule(name.removesuffix(".weight")))
        return linear and not any(f"{key}." in name or key == name for key in kept)

    def bitsandbytes(name: str) -> bool:
        module = name.removesuffix(".weight")
        linear = isinstance(model.get_submodule(module), torch.nn.Linear) and module.rpartition(".")[2] not in kept
        return linear and not any(f"{key}." in module or key == module for key in kept)

    return {"torchao": torchao, "bitsandbytes": bitsandbytes}


def _of_transformers(model: Any) -> dict[str, Callable[[str], bool]]:
    """transformers 5.24, `quantizer_torchao.py:92` and `integrations/bitsandbytes.py:185`."""
    kept = [*get_keys_to_not_convert(model), *kept_float32(model)]

    def torchao(name: str) -> bool:
        linear = _is_linear(model.get_submodule(name.removesuffix(".weight")))
        return linear and should_convert_module(name, kept)

    def bitsandbytes(name: str) -> bool:
        module = name.removesuffix(".weight")
        return type(model.get_submodule(module)) is torch.nn.Linear and should_convert_module(module, kept)

    return {"torchao": torchao, "bitsandbytes": bitsandbytes}
