"""Describes diffusers' attention backends by asking their registry: the content of `models/attention.json`.

Nothing is taken from names. What a backend takes is tried with a tiny call: one that refuses a mask or the
log-sum-exp says so with a `ValueError` before it looks for its kernel. Imported by `facts/generate.py` alone.
"""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import diffusers
import torch
from diffusers.models import attention_dispatch as dispatch

_REGISTRY = dispatch._AttentionBackendRegistry
_SHAPE = (1, 8, 2, 64)
"""Batch, tokens, heads, width of a head."""

# XPU has torch's own operators; nobody has tried the rest there. NPU and XLA devices are no kinds that a recipe has.
_XPU = ("native", "_native_flash", "_native_math")
_OTHER_DEVICES = ("_native_npu", "_native_xla")


def describe_attention() -> dict[str, Any]:
    """Every registered backend by name, and the classes for which none can be chosen."""
    logging.disable(logging.WARNING)
    return {"backends": describe_backends(), "classes_without_choice": classes_without_choice()}


def describe_backends() -> dict[str, Any]:
    """Every registered backend by name: those that ship with torch first, `native` before all."""
    described = {backend.value: _describe(backend) for backend in _REGISTRY._backends}
    order = list(described)
    order.sort(key=lambda name: (described[name]["package"] is not None, name != "native", name == "flex"))
    return {name: described[name] for name in order}


def classes_without_choice() -> list[str]:
    """Classes none of whose attention layers looks at the backend it is given.

    Those that cannot be built by default are judged by their module: it neither calls the dispatcher nor borrows layers
    of another transformer, nor holds several models.
    """
    found = []
    for name in sorted(dir(diffusers)):
        cls: Any = getattr(diffusers, name, None)
        if not inspect.isclass(cls) or not issubclass(cls, diffusers.ModelMixin) or cls is diffusers.ModelMixin:
            continue
        try:
            with torch.device("meta"):
                model: Any = getattr(diffusers, name).from_config({})
        except Exception:  # some have required arguments
            source = inspect.getsource(inspect.getmodule(cls) or diffusers)
            if not any(part in source for part in ("dispatch_attention_fn", "from .transformer_", "MultiControlNet")):
                found.append(name)
            continue
        processors = (getattr(module, "processor", None) for module in model.modules())
        if not any(hasattr(processor, "_attention_backend") for processor in processors):
            found.append(name)
    return found


def _describe(backend: Any) -> dict[str, Any]:
    checks = {check.__name__ for check in _REGISTRY._constraints[backend]}
    if "_check_qkv_dtype_bf16" in checks:
        dtypes = ["bfloat16"]
    elif "_check_qkv_dtype_bf16_or_fp16" in checks:
        dtypes = ["bfloat16", "float16"]
    else:
        dtypes = ["float32", "bfloat16", "float16"]
    arguments = _REGISTRY._supported_arg_names[backend]
    masks = {
        "bool": torch.ones(_SHAPE[0], _SHAPE[1], dtype=torch.bool),
        "float": torch.zeros(_SHAPE[0], 1, 1, _SHAPE[1]),
    }
    context = backend.value in _REGISTRY._supports_context_parallel
    asks = "return_lse" if "return_lse" in arguments else "return_attn_probs"
    return {
        "kinds": _kinds(backend),
        "dtypes": dtypes,
        "head_widths": [64, 128] if "_check_head_dim_64_or_128" in checks else [],
        "masks": [kind for kind, mask in masks.items() if not _refuses(backend, attn_mask=mask)],
        "context": context,
        "log_sum_exp": context and not _refuses(backend, **{asks: True}),
        "package": _package(backend),
    }


def _call(backend: Any, **arguments: Any) -> Any:
    # Numbers of their own, so that the caller's generators stay where they are.
    tensor = torch.linspace(-1.0, 1.0, 1024).reshape(_SHAPE)
    return _REGISTRY._backends[backend](query=tensor, key=tensor, value=tensor, **arguments)


def _refuses(backend: Any, **arguments: Any) -> bool:
    """Whether the backend's own guard turns these arguments down; a kernel that is not installed is no refusal."""
    try:
        _call(backend, **arguments)
    except ValueError:
        return True
    except Exception:
        return False
    return False


def _kinds(backend: Any) -> list[str]:
    """Device kinds on which it runs without context parallelism; the CPU is tried."""
    if backend.value in _OTHER_DEVICES:
        return []
    try:
        expected = _call(dispatch.AttentionBackendName.NATIVE)
        runs_on_cpu = bool(torch.allclose(_call(backend), expected, atol=1e-5))
    except Exception:  # each kernel has its own way to say that it has nothing for a CPU
        runs_on_cpu = False
    return [*(["cpu"] if runs_on_cpu else []), "cuda", *(["xpu"] if backend.value in _XPU else [])]


@contextmanager
def _nothing_installed() -> Iterator[None]:
    """The module as it is on a machine without any of the optional packages."""
    flags: dict[str, Any] = {name: False for name in vars(dispatch) if re.fullmatch(r"_CAN_USE_(?!FLEX).+", name)}
    with patch.multiple(dispatch, **flags), patch.object(dispatch, "is_kernels_available", lambda: False):
        yield


def _package(backend: Any) -> str | None:
    """What has to be installed for it, as diffusers says it; None where torch is enough."""
    with _nothing_installed():
        try:
            dispatch._check_attention_backend_requirements(backend)
        except RuntimeError as error:
            named = re.search(r"install `(?:pip install )?([\w.>=-]+)`|with `pip install (\w+)`", str(error))
            return (named[1] or named[2]) if named else "flash-attn-3 (built from source)"
    return None
