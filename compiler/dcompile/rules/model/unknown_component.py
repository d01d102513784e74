"""A component is named that the pipeline does not have.

What it checks: names under `components`, `parallel.components`, `parallel.device_map` and `model.adapters`; that no
denoiser or autoencoder is left out.

Why it matters: a setting for a component that does not exist has no effect, and the one that was meant keeps its
default.

Example: `parallel: {components: {transfomer: {tensor: 2}}}`

Use instead: `parallel: {components: {transformer: {tensor: 2}}}`

Source: our own; diffusers ignores unknown names in most places.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic, Path
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
    for name, path in named:
        if name not in known and name not in added:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean `{close[0]}`?" if close else f"it has {', '.join(known)}"
            yield error("DC304", f"{subject.facts.model.pipeline} has no component `{name}`", hint, path)
    for name, component in subject.recipe.components.items():
        if component is None and (name in subject.facts.model.denoisers or name == "vae"):
            message = f"{subject.facts.model.pipeline} cannot run without `{name}`"
            yield error(
                "DC304", message, "leave the line out; `null` is for a spare text encoder", ("components", name)
            )


RULE = Rule("DC304", check)
