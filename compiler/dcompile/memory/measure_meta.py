"""Runs a module on the meta device, whose tensors have sizes and no contents, and counts what is alive. Imports torch.

What an operator takes inside itself is not seen, but for what a `Workspace` says. Attention counts as one operator that
keeps its output and the log-sum-exp, as the kernels of every accelerator are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import diffusers
import torch
import transformers
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from dcompile.memory.live_storages import LiveStorages, Workspace, together


class Device(TorchDispatchMode):  # type: ignore[misc]
    """Makes the meta device answer as one with contents.

    Of a text's mask all `text` tokens are there, or some are padding. Of experts the first get as many tokens as there
    are, which takes most. Layouts are those that other devices give: a
    convolution leaves the channels of its output together where those of its input are, and strides of a dim of size 1,
    by which that is judged, stay as they are.
    """

    def __init__(self, text: int, is_padded: bool, experts: tuple[int, int] = (0, 0)) -> None:
        super().__init__()
        self.text = text
        self.is_padded = is_padded
        self.experts, self.active = experts
        self.routed: int | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The operators that need contents, or another layout."""
        kwargs = kwargs or {}
        if func is torch.ops.aten.nonzero.default and args[0].is_meta:
            return torch.empty(args[0].numel(), args[0].dim(), dtype=torch.int64, device="meta")
        if func is torch.ops.aten._local_scalar_dense.default and args[0].is_meta:
            return not self.is_padded if args[0].dtype is torch.bool else self.text
        if func is torch.ops.aten.bincount.default:
            self.routed = args[0].numel() // self.active
            return torch.empty(self.experts, dtype=torch.int64, device="meta")
        if func is torch.ops.aten._to_copy.default and args[0].is_meta and str(kwargs.get("device")) == "cpu":
            if self.routed is not None:
                routed, self.routed = self.routed, None
                return torch.full(args[0].shape, routed, dtype=torch.int64)
            return torch.full(args[0].shape, self.text, dtype=torch.int64)
        if func is torch.ops.aten.where.self and args[1].is_meta:  # of a mask that has contents, on the CPU
            args = (args[0].to("meta"), *args[1:])
        result = func(*args, **kwargs)
        if func is torch.ops.aten.convolution.default and (layout := together(args[0])) is not None:
            return torch.empty_like(result, memory_format=layout)
        return _with_strides_of(args[0], result) if args and func not in _VIEWS else result


_VIEWS = (torch.ops.aten.view.default, torch.ops.aten.as_strided.default, torch.ops.aten.clone.default)


def _with_strides_of(first: Any, result: Any) -> Any:
    """The result of an elementwise operator, with the strides of its argument where they differ at sizes of 1 alone."""
    if not (type(first) is torch.Tensor is type(result) and first.shape == result.shape):  # no DTensor
        return result
    own, strides = result.stride(), first.stride()
    if own != strides and all(a == b or size == 1 for a, b, size in zip(own, strides, result.shape, strict=True)):
        return result.as_strided(result.shape, strides)
    return result


def _fused_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: Any = None, *_: Any, **__: Any
) -> torch.Tensor:
    """What a fused kernel leaves: its output, and while it runs the log-sum-exp and a mask in its own dtype."""
    kept = [query.new_empty(query.shape[:-1], dtype=torch.float32)]
    if attn_mask is not None:
        kept.append(attn_mask.to(query.dtype))
    return query.new_empty((*query.shape[:-1], value.shape[-1]))


class _NoAutocast(nullcontext[None]):
    """Stands for `torch.autocast`, which does not know the meta device."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()


@contextmanager
def on_meta() -> Iterator[None]:
    """The meta device, with attention as one operator and without autocasting."""
    plain = torch.nn.functional.scaled_dot_product_attention, torch.autocast
    torch.nn.functional.scaled_dot_product_attention, torch.autocast = _fused_attention, _NoAutocast
    try:
        with torch.device("meta"), torch.no_grad():
            yield
    finally:
        torch.nn.functional.scaled_dot_product_attention, torch.autocast = plain


def build(class_name: str, library: str, config: dict[str, Any], dtype: str) -> Any:
    """A model without contents, in the dtypes that `from_pretrained` gives its parameters."""
    if library != "transformers":
        home = diffusers if library == "diffusers" else import_module(f"diffusers.pipelines.{library}")
        model = getattr(home, class_name).from_config(config).eval()
        keep = model._keep_in_fp32_modules or ()
    else:
        cls = getattr(transformers, class_name)
        model = cls._from_config(cls.config_class(**config)).eval()
        keep = () if dtype == "bfloat16" else getattr(model, "_keep_in_fp32_modules", None) or ()
    for prefix, module in model.named_modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                is_kept = any(part in keep for part in f"{prefix}.{name}".split("."))
                kind = torch.float32 if is_kept else getattr(torch, dtype)
                module._parameters[name] = torch.nn.Parameter(parameter.to(kind), requires_grad=False)
        for name, buffer in module._buffers.items():
            if library != "transformers" and not keep and buffer is not None and buffer.is_floating_point():
                module._buffers[name] = buffer.to(getattr(torch, dtype))
    return model


@dataclass(frozen=True)
class Run:
    """One call of a module.

    Attributes:
        call: what runs.
        inputs: the tensors that it is given.
        text: tokens of a text that a mask has.
        is_padded: whether that mask hides some.
        experts: how many a layer has, and how many of them see a token; none where it has none.
    """

    call: Callable[[], Any]
    inputs: Any
    text: int = 0
    is_padded: bool = False
    experts: tuple[int, int] = (0, 0)


def held_tensors(model: Any, run: Run) -> list[torch.Tensor]:
    """What is there before a call beside what weight files hold: its inputs, and the tables that a class makes."""
    saved = model.state_dict().keys()
    buffers = [buffer for name, buffer in model.named_buffers() if name not in saved]
    plain = [value for module in model.modules() for value in vars(module).values() if not isinstance(value, dict)]
    return [tensor for tensor in tree_leaves([buffers, plain, run.inputs]) if isinstance(tensor, torch.Tensor)]


def peak_bytes(model: Any, run: Run, workspace: Workspace | None = None) -> int:
    """The most bytes alive at once while a module runs, beside what weight files hold.

    Args:
        model: on the meta device.
        run: the call.
        workspace: what operators take inside themselves.
    """
    storages = LiveStorages(workspace)
    held = held_tensors(model, run)
    storages.add([*model.parameters(), *model.state_dict().values()], counts=False)
    storages.add(held)
    with Device(run.text, run.is_padded, run.experts), storages:
        run.call()
    return storages.peak_bytes
