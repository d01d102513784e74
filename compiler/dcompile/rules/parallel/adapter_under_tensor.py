"""An adapter stays unfused under `tensor`.

What it checks: `model.adapters` of a component that is split by `tensor`.

Why it matters: diffusers refuses to shard a model with adapter layers, and one added afterwards gives ranks different
weights in silence.

Example: `adapters: [{path: a.safetensors, fuse: false}]` with `tensor: 2`

Use instead: `fuse: true`

Source: diffusers 0.42.1, `hooks/tensor_parallel.py:460` (rules.md TPC-20 to TPC-22).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    for i, adapter in enumerate(subject.recipe.model.adapters):
        name = adapter.component or subject.facts.model.denoisers[0]
        if name in subject.splits.components and subject.split(name).tensor > 1 and adapter.fuse is False:
            message = f"an adapter of `{name}` must be merged into the weights under `tensor`"
            yield error("DC413", message, "set `fuse: true`", ("model", "adapters", i, "fuse"))


RULE = Rule("DC413", check)
