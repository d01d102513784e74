"""Every part of diffusers that is not public and that the runtime uses: here and nowhere else.

Why: `enable_parallelism` asks for an accelerator and makes its own mesh, so that the pieces under it are called on
ours; the CPU has no log-sum-exp and gloo no uneven all-gather, so that two of those pieces are replaced; and attention
has a default for the whole process, which `set_attention_backend` leaves changed.

Tried with the versions in `TRIED_WITH`. `tests/distributed/test_library.py` fails where a part has moved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from diffusers import ParallelConfig
from diffusers.hooks import context_parallel as _hooks
from diffusers.models import attention_dispatch as _attention
from diffusers.models.attention import AttentionModuleMixin
from diffusers.models.attention_processor import Attention, MochiAttention
from torch import nn

TRIED_WITH = {"diffusers": ("0.42.1",), "torch": ("2.13.0",)}

apply_context_parallel = _hooks.apply_context_parallel
"""`(module, parallel_config, plan)`: the hooks that split and gather a sequence."""
gather_sizes = _hooks.gather_size_by_comm
"""`(size, group)`: the size on every rank."""
native_forward = _attention._native_attention_forward_op
"""The forward of native attention under context parallelism, as the library has it."""


def context_plan(model: nn.Module) -> Any:
    """Where a class splits and gathers its sequence; None where it has no plan."""
    return getattr(model, "_cp_plan", None)


def set_parallel_config(model: nn.Module, config: ParallelConfig) -> None:
    """Tells a model and each of its attention processors over which mesh the sequence is split."""
    model._parallel_config = config
    for module in model.modules():
        is_attention = isinstance(module, (Attention, MochiAttention, AttentionModuleMixin))
        if is_attention and hasattr(module.processor, "_parallel_config"):
            module.processor._parallel_config = config


def takes_part(processor: Any) -> bool:
    """Whether an attention processor knows of a split sequence."""
    return getattr(processor, "_parallel_config", None) is not None


def replace_native_forward(forward: Callable[..., Any]) -> None:
    """Has native attention under context parallelism go through another forward of the same parameters."""
    _attention._native_attention_forward_op = forward


def replace_uneven_gather(gather: Callable[[torch.Tensor, int, Any], torch.Tensor]) -> None:
    """Has shards of different length gathered by another function of the same parameters."""
    _hooks._all_gather_anything = gather


def check_attention_backend(name: str) -> None:
    """Finds out whether an attention backend can be used here.

    Raises:
        ValueError: where the installed diffusers has no such backend.
        RuntimeError: where it needs a package that is not installed.
    """
    _attention._check_attention_backend_requirements(_attention.AttentionBackendName(name))


def use_native_attention_by_default() -> None:
    """Sets the process-wide default, which `set_attention_backend` changes too."""
    _attention._AttentionBackendRegistry.set_active_backend(_attention.AttentionBackendName.NATIVE)


def processors(model: nn.Module) -> list[Any]:
    """The attention processors of a model that take a backend."""
    found = (getattr(module, "processor", None) for module in model.modules())
    return [processor for processor in found if hasattr(processor, "_attention_backend")]


def backend_of(processor: Any) -> str | None:
    """The backend that a processor was given."""
    backend = processor._attention_backend
    return None if backend is None else str(getattr(backend, "value", backend))


def wrap_flex_attention(wrap: Callable[[Any], Any]) -> None:
    """Puts something around the backend that compiles itself."""
    backends, flex = _attention._AttentionBackendRegistry._backends, _attention.AttentionBackendName.FLEX
    backends[flex] = wrap(backends[flex])


def execution_device(pipeline: Any) -> torch.device:
    """The device on which a pipeline makes its latents and calls its scheduler."""
    return pipeline._execution_device


def kept_in_float32(model_class: Any) -> list[str]:
    """The modules that a class keeps in float32 whatever dtype it is loaded in."""
    return model_class._keep_in_fp32_modules or []
