"""The model as the recipe asks for it: under another pipeline class, or the one that a task means."""

from __future__ import annotations

from dcompile.core.diagnostics import Diagnostic, Path, Severity
from dcompile.core.meant import meant, nearest
from dcompile.facts.registry import known_models, load_model
from dcompile.facts.types import ModelFacts
from dcompile.facts.uses import as_pipeline, fitting, misfit, of_task, pipeline_classes, tasks, tasks_of, use_of
from dcompile.recipe.model import Recipe

PIPELINE, TASK = "DC363", "DC364"


def as_asked(recipe: Recipe, model: ModelFacts) -> tuple[ModelFacts | None, list[Diagnostic]]:
    """The facts under `model.pipeline`, else under the class of `run.task`.

    Emits: DC363 a class that the model's components do not fit, DC364 a task that no class does, or not the one that
        is named.
    """
    task, named = recipe.run.task, recipe.model.pipeline
    if task is not None and task not in tasks():
        near = nearest(task, tasks())
        hint = f"did you mean `{near}`?" if near else f"use {_either(tasks())}"
        return None, [_error(TASK, f"`{task}` is no task", hint, ("run", "task"), meant(task, tasks()))]
    if named is not None:
        fault = misfit(model, named)
        if fault is not None:
            return None, [_no_pipeline(model, named, fault)]
        own = tasks_of(named)
        if task is not None and own and task not in own:
            message = f"{named} is for {' and '.join(own)}, not for {task}"
            return None, [_error(TASK, message, "keep one of `pipeline` and `task`", ("run", "task"))]
        return as_pipeline(model, named), []
    if task is None:
        return model, []
    found = of_task(model, task)
    fault = misfit(model, found) if found is not None else None
    if found is None or fault is not None:
        return None, [_no_class(model, task, f"{found} {fault}" if found is not None else None)]
    return as_pipeline(model, found), []


def _no_pipeline(model: ModelFacts, named: str, fault: str) -> Diagnostic:
    known = pipeline_classes()
    only = meant(named, known) if use_of(named) is None else None
    near = nearest(named, known) if use_of(named) is None else None
    hint = f"did you mean `{near}`?" if near else f"its components are those of {_either(fitting(model))}"
    return _error(PIPELINE, f"{named} {fault}", hint, ("model", "pipeline"), only)


def _no_class(model: ModelFacts, task: str, fault: str | None) -> Diagnostic:
    """Why no class does a task with a model, and which do."""
    several = fitting(model, task)
    if several:
        message = f"several classes of {model.family} are for {task}"
        return _error(TASK, message, f"write `pipeline:` under `model`: {_either(several)}", ("run", "task"))
    message = f"for {task}, {fault}" if fault else f"diffusers has no class for {task} with this model"
    others = _models_for(model.family, task)
    can = [other for other in tasks() if any(other in tasks_of(name) for name in fitting(model))]
    ways = [f"`model: {{id: {other}}}`" for other in others[:2]]
    ways += [f"`task: {other}`" for other in can]
    return _error(TASK, message, f"use {_either(tuple(ways))}" if ways else "leave it out", ("run", "task"))


def _models_for(family: str, task: str) -> tuple[str, ...]:
    """The known models of a family whose own class is for a task."""
    models = (load_model(name) for name in known_models())
    return tuple(model.id for model in models if model.family == family and task in tasks_of(model.pipeline))


def _either(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _error(code: str, message: str, hint: str, path: Path, fix: str | None = None) -> Diagnostic:
    return Diagnostic(code, Severity.ERROR, message, hint, path, fix=fix)
