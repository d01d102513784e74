"""A key of the recipe that this version does not lower yet.

What it checks: `cfg`, `shard`, `auto`, `offload`, `quantize`, `compile`, step caches, `targets`, several nodes, added
components.

Why it matters: a key that is accepted and ignored is the worst answer a checker can give.

Example: `parallel: {cfg: 2}`

Use instead: leave it out

Source: our own.
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic, Path
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    parallel, recipe = subject.parallel, subject.recipe
    if recipe.parallel == "auto" or parallel.auto is not None:
        yield error("DC400", "`auto` is not available yet", "name a plan, such as `tensor: 2`", ("parallel",))
    for key in ("cfg", "shard"):
        if getattr(parallel, key) not in (None, 1):
            yield error("DC400", f"`{key}` is not available yet", "leave it out", ("parallel", key))
    for name, own in parallel.components.items():
        for key in ("offload", "shard"):
            if getattr(own, key) is not None:
                path: Path = ("parallel", "components", name, key)
                yield error("DC400", f"`{key}` is not available yet", "leave it out", path)
        if name not in subject.facts.model.denoisers and (own.tensor or own.context):
            message = "splitting a component that is not a denoiser is not available yet"
            hint = "split the denoiser, or place the component with `device`"
            yield error("DC400", message, hint, ("parallel", "components", name))
    for split in dict.fromkeys(subject.splits.components.values()):
        if split.plan == "ours":
            message = "our own tensor plans are not available yet"
            yield error("DC400", message, "use `plan: builtin`", (*split.where, "plan"))
    for name, component in recipe.components.items():
        for key in ("quantize", "cache", "compile", "id", "path"):
            if component is not None and getattr(component, key) not in (None, False):
                yield error("DC400", f"`{key}` is not available yet", "leave it out", ("components", name, key))
    for path, given in (
        (("run", "task"), recipe.run.task),
        (("run", "id_column"), recipe.run.id_column),
        (("model", "pipeline"), recipe.model.pipeline),
    ):
        if given is not None and given != subject.facts.model.pipeline:
            yield error("DC400", f"`{path[-1]}` is not available yet", "leave it out", path)
    if recipe.targets:
        yield error("DC400", "`targets` are not available yet", "leave them out", ("targets",))
    if recipe.run.images is not None:
        yield error("DC400", "`images` are not available yet", "leave them out", ("run", "images"))
    if subject.facts.devices.nodes > 1:
        yield error("DC400", "several nodes are not available yet", "use one node", ("devices", "nodes"))


RULE = Rule("DC400", check)
