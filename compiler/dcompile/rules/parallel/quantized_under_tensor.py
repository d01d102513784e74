"""A component whose weights are quantized is split by `tensor`.

What it checks: `quantization_config` in the component's published configuration, and `components.<name>.quantize`.

Why it matters: packed weights cannot be cut along their dims; diffusers refuses it after the process group has started.

Example: `model: {path: flux-nf4}` with `tensor: 2`

Use instead: `context`, `data` or `device_map`, which leave weights whole; or the model in bfloat16

Source: diffusers 0.42.1, `hooks/tensor_parallel.py:407` and `:430` (rows TPC-13, QNT-08).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    for name, split in subject.splits.components.items():
        facts = subject.facts.model.components[name]
        published, own = facts.config.get("quantization_config"), subject.recipe.components.get(name)
        asked = own.quantize if own is not None else None
        of_file = published.get("quant_method", "an unknown method") if isinstance(published, dict) else None
        method = asked.method if asked is not None else of_file
        if split.tensor == 1 or method is None:
            continue
        instead = "`context` or `data`" if facts.context_plan else "`data` or `device_map`"
        otherwise = "leave `quantize` out" if asked is not None else "the model in bfloat16"
        message = f"the weights of `{name}` are quantized ({method}), and `tensor` cannot split them"
        yield error("DC445", message, f"use {instead}, or {otherwise}", split.where)


RULE = Rule("DC445", check)
