"""The pipeline's call takes no input picture.

What it checks: `run.images`, or the column `image` of a prompt file, against the pipeline's `__call__`.

Why it matters: diffusers raises for an argument that the call does not have, when every weight is loaded.

Example: `run: {images: [fox.png]}` with FLUX.1-dev

Use instead: `run: {images: [fox.png], task: image-to-image}`

Source: diffusers 0.42.1, the pipelines' `__call__`.
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.facts.types import ModelFacts
from dcompile.facts.uses import fitting, of_task, tasks, use_of
from dcompile.layout.pictures import where_named
from dcompile.rules.model.needs_pictures import GIVEN
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    where, model = where_named(subject.recipe, subject.facts), subject.facts.model
    if where is None or any(name != GIVEN for name in model.pictures):
        return  # DC330 is the cause where the call wants pictures by other names
    use = use_of(model.pipeline)
    if use is not None and use.pictures == "several" and model.conditions is None:
        message = f"what {model.pipeline} does with several pictures is not known, so nothing here can count them"
        yield error("DC361", message, "leave them out", where)
    elif use is None or use.pictures is None:
        yield error("DC361", f"{model.pipeline} takes no input pictures", _instead(model), where)


def _instead(model: ModelFacts) -> str:
    fits = [name for name in fitting(model) if (use := use_of(name)) is not None and use.pictures is not None]
    ways = [f"`task: {task}`" for task in tasks() if of_task(model, task) in fits]
    ways = ways or [f"`pipeline: {name}` under `model`" for name in fits[:3]]
    return f"leave them out, or write {' or '.join(ways)}" if ways else "leave them out, or use a model that takes them"


RULE = Rule("DC361", check)
