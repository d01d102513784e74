"""An adapter stays unfused under `tensor`.

What it checks: `fuse: false` where the adapter's component, or another one that its file changes, is split by `tensor`.

Why it matters: diffusers refuses to shard a model with adapter layers, and one added afterwards gives ranks different
weights in silence.

Example: `adapters: [{path: a.safetensors, fuse: false}]` with `tensor: 2`

Use instead: `fuse: true`

Source: diffusers 0.42.1, `hooks/tensor_parallel.py:460`, `loaders/peft.py:165` and `:517` (rows TPC-20 to TPC-22).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    for i, adapter in enumerate(subject.recipe.model.adapters):
        if adapter.fuse is not False:
            continue
        facts = subject.facts.adapters[i] if i < len(subject.facts.adapters) else None
        changed = dict.fromkeys([adapter.component or subject.facts.model.denoisers[0]])
        changed |= dict.fromkeys(facts.components if facts is not None else ())
        split = [name for name in changed if name in subject.splits.components and subject.split(name).tensor > 1]
        if split:
            message = f"an adapter of `{split[0]}` must be merged into the weights under `tensor`"
            yield error("DC413", message, "set `fuse: true`", ("model", "adapters", i, "fuse"), fix="true")


RULE = Rule("DC413", check)
