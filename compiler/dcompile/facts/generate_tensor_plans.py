"""Tensor plans of the installed classes; a part of `facts/generate.py`."""

from __future__ import annotations

from typing import Any

import diffusers
from diffusers.hooks.tensor_parallel import PackedColwiseParallel, PackedRowwiseParallel

_LINEAR_STYLES = ("colwise", "rowwise")
_WHOLE_STYLES = ("embedding_rowwise", "colwise_gather_output", "replicated_with_grad_allreduce")


def resolved_plan(model: Any) -> list[list[Any]]:
    """The class's tensor plan as [module, style, absolute sizes of fused parts]."""
    plan = []
    for pattern, style in (tensor_plan(type(model), model) or {}).items():
        module = model.get_submodule(pattern.replace("*", "0"))
        name, fused, dim = style_of(style)
        blocks = fused or list(getattr(module, f"_tp_packed_{'col' if dim == 0 else 'row'}_blocks", []))
        size = module.weight.shape[dim]
        blocks = [block * size // sum(blocks) for block in blocks]
        plan.append([pattern, name, blocks if name.startswith("packed") else []])
    return plan


def tensor_plan(cls: type, model: Any = None) -> dict[str, Any] | None:
    """The class's own plan. Of a transformers class it is the instance's, and the Linear layers of it.

    Such a plan also splits the embedding and the head, which stay whole here: that needs transformers' own loader.
    One with a style that is not known here (experts of a mixture) is no plan for us.
    """
    if issubclass(cls, diffusers.ModelMixin):
        return getattr(cls, "_tp_plan", None)
    plan = getattr(model, "_tp_plan", None) or {}
    if not set(plan.values()) <= {*_LINEAR_STYLES, *_WHOLE_STYLES}:
        return None
    return {pattern: style for pattern, style in plan.items() if style in _LINEAR_STYLES}


def style_of(style: Any) -> tuple[str, list[int], int]:
    """A style's name, the sizes of its fused parts, and the dim of the weight that it splits."""
    if isinstance(style, PackedColwiseParallel):
        return "packed_colwise", list(style.blocks or []), 0
    if isinstance(style, PackedRowwiseParallel):
        return "packed_rowwise", list(style.blocks or []), 1
    return style, [], 1 if style == "rowwise" else 0
