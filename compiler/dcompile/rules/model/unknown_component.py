"""A component is named that the pipeline does not have, or that the recipe leaves out.

What it checks: names under `components`, `parallel.components`, `parallel.device_map` and `model.adapters`; that no
denoiser, autoencoder or needed text encoder is left out.

Why it matters: a setting for a component that does not exist has no effect, and the one that was meant keeps its
default.

Example: `parallel: {components: {transfomer: {tensor: 2}}}`

Use instead: `parallel: {components: {transformer: {tensor: 2}}}`

Source: our own; diffusers ignores unknown names in most places.
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic, Path, Remove
from dcompile.core.meant import meant, nearest
from dcompile.layout.spare import is_needed
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    known = tuple(subject.facts.model.components)
    named: list[tuple[str, Path]] = [
        (n, ("components", n)) for n, c in subject.recipe.components.items() if c is None or not (c.id or c.path)
    ]
    named += [(n, ("parallel", "components", n)) for n in subject.parallel.components]
    if isinstance(subject.parallel.device_map, dict):
        named += [(n, ("parallel", "device_map", n)) for n in subject.parallel.device_map]
    for i, adapter in enumerate(subject.recipe.model.adapters):
        if adapter.component is not None:
            named.append((adapter.component, ("model", "adapters", i, "component")))
    added = {n for n, c in subject.recipe.components.items() if c is not None and (c.id or c.path)}
    left_out = {n for n, c in subject.recipe.components.items() if c is None}
    model, pipeline = subject.facts.model, subject.facts.model.pipeline
    for name, path in named:
        if name in left_out and name in known and path[0] != "components":
            if is_needed(model, name):
                continue  # that it is left out is the cause
            message = f"`{name}` is left out (`components: {{{name}: null}}`) and named here"
            yield error("DC304", message, "delete one of the two lines", path)
        elif name not in known and name not in added and _goes_with(name) not in left_out:
            near, only = nearest(name, known), meant(name, known)
            hint = f"did you mean `{near}`?" if near else f"it has {', '.join(known)}"
            is_key = path[-1] == name
            fix = None if is_key and only in _beside(subject, path) else only
            yield error("DC304", f"{pipeline} has no component `{name}`", hint, path, is_key=is_key, fix=fix)
    for name, component in subject.recipe.components.items():
        if component is None and is_needed(model, name):
            message = f"{pipeline} cannot run without `{name}`"
            hint = "leave the line out; `null` is for a spare text encoder"
            yield error("DC304", message, hint, ("components", name), is_key=True, fix=Remove())


def _goes_with(name: str) -> str | None:
    """The component without which a part that has no weights is idle: diffusers' own examples leave out both."""
    if name.startswith("tokenizer"):
        return name.replace("tokenizer", "text_encoder")
    return "safety_checker" if name == "feature_extractor" else None


def _beside(subject: Subject, path: Path) -> tuple[str, ...]:
    """The names that are written in the same mapping."""
    at = subject.parallel.device_map if path[1] == "device_map" else subject.parallel.components
    return tuple(subject.recipe.components if path[0] == "components" else at if isinstance(at, dict) else ())


RULE = Rule("DC304", check)
