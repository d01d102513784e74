"""A key of the recipe that this version does not lower yet.

What it checks: `cfg`, `shard`, `offload` by groups or layers, `quantize` by quanto or GGUF, `compile`, step caches,
`targets`, added components.

Why it matters: a key that is accepted and ignored is the worst answer a checker can give.

Example: `parallel: {cfg: 2}`

Use instead: leave it out

Source: our own.
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic, Path
from dcompile.layout.stored import TYPES
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    parallel, recipe = subject.parallel, subject.recipe
    for key in ("cfg", "shard"):
        if getattr(parallel, key) not in (None, 1):
            yield error("DC400", f"`{key}` is not available yet", "leave it out", ("parallel", key))
    for name, own in parallel.components.items():
        path: Path = ("parallel", "components", name)
        if own.shard is not None:
            yield error("DC400", "`shard` is not available yet", "leave it out", (*path, "shard"))
        if own.offload not in (None, "model"):
            message = f"`offload: {own.offload}` is not available yet"
            yield error("DC400", message, "write `offload: model`", (*path, "offload"))
    for split in dict.fromkeys(subject.splits.components.values()):
        if split.plan == "ours":
            message = "our own tensor plans are not available yet"
            yield error("DC400", message, "use `plan: builtin`", (*split.where, "plan"))
    for name, component in recipe.components.items():
        if component is None:
            continue
        if component.quantize is not None and component.quantize.method not in TYPES:
            message = f"`quantize` by {component.quantize.method} is not available yet"
            hint = f"use {' or '.join(f'`method: {method}`' for method in TYPES)}"
            yield error("DC400", message, hint, ("components", name, "quantize", "method"))
        for key in ("cache", "compile", "id", "path"):
            if getattr(component, key) not in (None, False):
                yield error("DC400", f"`{key}` is not available yet", "leave it out", ("components", name, key))
    if recipe.targets:
        yield error("DC400", "`targets` are not available yet", "leave them out", ("targets",))


RULE = Rule("DC400", check)
