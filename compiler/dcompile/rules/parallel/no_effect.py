"""A setting that changes nothing.

What it checks: `context` without a degree, `seed` beside `seeds`, `fps` of pictures, `devices.ids` on a CPU,
`attention` of a component whose layers have no choice of backend, `quantize` of one without linear layers.

Why it matters: what is asked for and silently left out is found last.

Example: `parallel: {context: {}}`

Use instead: `context: {ulysses: 2}`

Source: diffusers 0.42.1, `models/_modeling_parallel.py:106`, `models/modeling_utils.py:660` (row CPC-01).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic, Path, Remove
from dcompile.layout.attention import has_choice
from dcompile.layout.stored import quantized_matrices, storage_of
from dcompile.recipe.model import Context, Devices
from dcompile.rules.rule import Rule, Subject, warning


def check(subject: Subject) -> Iterator[Diagnostic]:
    recipe, parallel = subject.recipe, subject.parallel
    contexts: list[tuple[Path, Context | None]] = [(("parallel", "context"), parallel.context)]
    contexts += [
        (("parallel", "components", name, "context"), own.context) for name, own in parallel.components.items()
    ]
    for path, context in contexts:
        if context is not None and not {"ulysses", "ring"} & context.model_fields_set and not context.uneven:
            yield warning("DC420", "`context` without a degree splits nothing", "add `ulysses: 2`", path)
    if subject.facts.devices.kind == "cpu" and isinstance(recipe.devices, Devices) and recipe.devices.ids is not None:
        message = "`ids` has no effect on CPU devices"
        hint = f"use `per_node: {len(recipe.devices.ids)}`"
        yield warning("DC420", message, hint, ("devices", "ids"))
    if recipe.run.seeds is not None and recipe.run.seed is not None:
        message = "`seed` has no effect: `seeds` has one for each prompt"
        yield warning("DC420", message, "leave one of the two out", ("run", "seed"))
    if recipe.output.fps is not None and subject.settings.frames is None:
        message = f"`fps` has no effect: {subject.facts.model.pipeline} makes pictures"
        yield warning("DC420", message, "leave it out", ("output", "fps"), fix=Remove())
    for name, component in recipe.components.items():
        facts = subject.facts.model.components.get(name)
        if component is None or facts is None:
            continue
        storage = storage_of(recipe, name, subject.facts.devices.kind)
        if storage.type is not None and facts.unquantized is not None and not quantized_matrices(facts, storage)[0]:
            message = f"{facts.class_name} has no linear layer whose weights `quantize` would change"
            yield warning("DC420", message, "leave it out", ("components", name, "quantize"), fix=Remove())
        if component.attention is not None and not has_choice(facts):
            message = f"the layers of {facts.class_name} have no choice of attention backend"
            yield warning("DC420", message, "leave it out", ("components", name, "attention"), fix=Remove())


RULE = Rule("DC420", check)
