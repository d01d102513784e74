"""The pipeline takes no adapter for the component.

What it checks: `model.adapters[].component`, the denoiser where it is not given, against the components that the
pipeline's class loads adapters into; for text encoders, that transformers accepts the version of peft.

Why it matters: diffusers fails after every weight was loaded, or loads the adapter into another component.

Example: `adapters: [{path: a.safetensors, component: vae}]`

Use instead: `component: transformer`, or leave it out

Source: diffusers 0.42.1, `_lora_loadable_modules` of each loader in `loaders/lora_pipeline.py`; transformers 5.24,
`integrations/peft.py` (`MIN_PEFT_VERSION`).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic, Path
from dcompile.core.versions import is_specifier, satisfies
from dcompile.facts.pipelines import describe_pipeline, peft_versions
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    model = subject.facts.model
    if not subject.recipe.model.adapters:
        return
    able = describe_pipeline(model.pipeline)["adapters"]
    if able is None:
        return  # a pipeline that nobody knows
    able = [name for name in able if name in model.components]
    for i, adapter in enumerate(subject.recipe.model.adapters):
        name = adapter.component or model.denoisers[0]
        if name not in model.components:
            continue  # DC304 is the cause
        if name in able:
            yield from _needs_newer_peft(subject, i, name)
            continue
        message = f"{model.pipeline} loads no adapters into `{name}`"
        hint = f"use {' or '.join(f'`{other}`' for other in able)}" if able else "leave the adapter out: it takes none"
        fix = able[0] if len(able) == 1 and adapter.component is not None else None
        yield error("DC443", message, hint, _place(subject, i), fix=fix)


def _needs_newer_peft(subject: Subject, i: int, name: str) -> Iterator[Diagnostic]:
    """Adapters of transformers' models; a recipe that asks for a newer peft than was tried knows what it does."""
    tried, needed = peft_versions()
    facts, components = subject.facts.adapters[i], subject.facts.model.components
    changed = (facts.components if facts is not None else None) or (name,)
    encoders = [other for other in changed if other in components and components[other].library == "transformers"]
    if not encoders or satisfies(tried, f">={needed}") or _excludes(subject.recipe.requires.get("peft"), tried):
        return
    message = f"transformers wants peft {needed} for an adapter of `{encoders[0]}`, and {tried} is the newest known"
    hint = f'use an adapter of the denoiser alone, or install it and write `requires: {{peft: ">={needed}"}}`'
    yield error("DC443", message, hint, _place(subject, i))


def _place(subject: Subject, i: int) -> Path:
    """The adapter's component where it is written, else its path."""
    own = subject.recipe.model.adapters[i]
    return ("model", "adapters", i, "path" if own.component is None else "component")


def _excludes(specifier: str | None, version: str) -> bool:
    """Whether the recipe asks for other versions."""
    # What is no specifier is DC310's.
    return specifier is not None and is_specifier(specifier) and not satisfies(version, specifier)


RULE = Rule("DC443", check)
