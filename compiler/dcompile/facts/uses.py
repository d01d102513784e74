"""What other pipeline classes run on a model's components, and which class a task means.

Read from `models/uses.json` (generated) only where a recipe has input pictures, `model.pipeline` or `run.task`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from dcompile.facts.pipelines import (
    describe_pipeline,
    fields_of,
    knows_pipeline,
    whole,
)
from dcompile.facts.registry import MODELS, read_json
from dcompile.facts.types import ModelFacts


@dataclass(frozen=True)
class Use:
    """What a pipeline class needs and takes; `facts/generate_uses.py` says how each is found out.

    Attributes:
        components: the names in its constructor, with the classes that it allows (none: it does not say).
        optional: those of them that it can do without.
        settings: the other arguments of its constructor.
        channels: the denoiser's input channels over this number are those of the latents; `vae`: something is stacked
            on the latents; None: not known.
        pictures: `one`, `several`, or None where the call has no `image`.
        size_from: the picture that gives height and width where the call does not say: `first`, `last`, `picture`.
        strength: the argument that says how much of the steps is run, or None.
        strength_floors: whether the steps that are run are rounded down, so that none may be left.
        modules: what a call imports beside the libraries that every run needs.
        one_prompt: whether a call takes one prompt, and no list of them.
    """

    components: dict[str, tuple[str, ...]]
    optional: frozenset[str]
    settings: frozenset[str]
    channels: int | str | None
    pictures: str | None
    size_from: str | None
    strength: str | None
    strength_floors: bool
    modules: tuple[str, ...]
    one_prompt: bool


@lru_cache(maxsize=1)
def _table() -> dict[str, Any]:
    return dict(read_json(MODELS / "uses.json"))


@lru_cache(maxsize=64)
def use_of(pipeline: str) -> Use | None:
    """What a class needs and takes; None where diffusers has no such class."""
    found = _table()["pipelines"].get(pipeline)
    if found is None:
        return None
    return Use(
        components={name: tuple(classes) for name, classes in found["components"].items()},
        optional=frozenset(found["optional"]),
        settings=frozenset(found["settings"]),
        channels=found["channels"],
        pictures=found["pictures"],
        size_from=found["size_from"],
        strength=found["strength"],
        strength_floors=found["strength_floors"],
        modules=tuple(found["modules"]),
        one_prompt=found["one_prompt"],
    )


def pipeline_classes() -> tuple[str, ...]:
    """Every pipeline class of diffusers, sorted."""
    return tuple(_table()["pipelines"])


def tasks() -> tuple[str, ...]:
    """The names of the tasks, in the order of diffusers' tables."""
    return tuple(_table()["tasks"])


def misfit(model: ModelFacts, pipeline: str) -> str | None:
    """Why a class cannot run on a model's components, as the rest of a sentence that starts with its name.

    None where it can: it finds every component that it needs, of the class that it needs, and the denoiser takes what
    the class hands it. Source: diffusers 0.42.1, `pipeline_utils.py:1100` (`from_pretrained`).
    """
    use, own = use_of(pipeline), use_of(model.pipeline)
    if use is None:
        return "is no pipeline class of diffusers"
    if pipeline == model.pipeline:
        return None
    entry = describe_pipeline(pipeline)
    if "PAG" in pipeline:
        return "runs attention of its own, which no backend and no split reaches"
    if not tasks_of(pipeline) and (use.pictures != "one" or entry["family"] != model.family):
        return "is none of the classes that diffusers lists for a task"
    # Tokenizers and processors have no weights, so the facts do not list them: a model has those of its own class.
    there = {"scheduler", *model.components}
    if own is not None:
        there |= own.components.keys() - own.optional
    missing = [name for name in use.components if name not in there and name not in use.optional]
    if missing:
        return f"needs {' and '.join(f'`{name}`' for name in missing)}, which the model does not have"
    for name, component in model.components.items():
        classes = use.components.get(name, ())
        if classes and component.class_name not in classes and (own is None or own.components.get(name) != classes):
            return f"needs {' or '.join(classes)} for `{name}`, and the model has {component.class_name}"
    if not any(name in use.components for name in model.denoisers):
        return f"does not use `{model.denoisers[0]}`"
    if entry["takes_guidance"] and not describe_pipeline(model.pipeline)["takes_guidance"]:
        return f"hands `{model.denoisers[0]}` a guidance to take in, which the model was not made for"
    for name, value in model.pipeline_config.items():
        if value and own is not None and name in own.settings - use.settings:
            return f"does not know `{name}`, which the model's own {model.pipeline} is set to"
    return _channel_misfit(model, pipeline, use)


def _channel_misfit(model: ModelFacts, pipeline: str, use: Use) -> str | None:
    """Why the denoiser does not take what the class hands it."""
    denoiser = model.denoisers[0]
    taken = whole(model.components[denoiser].config.get("in_channels"))
    vae = model.components["vae"].config if "vae" in model.components else {}
    latents = whole(vae.get("latent_channels")) or whole(vae.get("z_dim"))
    if not taken or not latents:
        return f"may hand `{denoiser}` another number of channels than it takes: the model's configs do not say"
    if use.channels == "vae":
        # Wan 2.2 of 5 billion parameters puts the picture in place of the first frame: nothing is stacked.
        if model.pipeline_config.get("expand_timesteps") is True and taken == latents:
            return None
        return f"stacks more than the latents on the input of `{denoiser}`, which takes {taken} channels"
    if use.channels is None and (use.strength is None or not tasks_of(pipeline)):
        return f"does not say how many channels it hands `{denoiser}`"
    # Where it does not, but starts from a picture: the autoencoder's latents as they are.
    share = use.channels if isinstance(use.channels, int) else 1
    if taken // share != latents:
        given = latents * share
        return f"hands `{denoiser}` {given} channels, and it takes {taken}"
    return None


def fitting(model: ModelFacts, task: str | None = None) -> tuple[str, ...]:
    """The classes of the model's family that run on its components and need nothing that recipes cannot give, its own
    first; of one task where that is given."""
    of_task = set(_table()["tasks"][task].values()) if task is not None else None
    found = [
        name
        for name in pipeline_classes()
        if (of_task is None or name in of_task)
        and knows_pipeline(name)
        and describe_pipeline(name)["family"] == model.family
        and set(describe_pipeline(name)["pictures"]) <= {"image"}
        and misfit(model, name) is None
    ]
    return tuple(sorted(found, key=lambda name: (name != model.pipeline, name)))


def of_task(model: ModelFacts, task: str) -> str | None:
    """The class that a task means for a model: its own, else the one under the same key of diffusers' tables, else the
    only one of its family that fits; None where that is not clear.

    Source: diffusers 0.42.1, `auto_pipeline.py` (`_get_task_class`).
    """
    tables: dict[str, dict[str, str]] = _table()["tasks"]
    if model.pipeline in tables[task].values():
        return model.pipeline
    keys = [key for table in tables.values() for key, name in table.items() if name == model.pipeline]
    for key in keys:
        if key in tables[task]:
            return tables[task][key]
    found = fitting(model, task)
    return found[0] if len(found) == 1 else None


def tasks_of(pipeline: str) -> tuple[str, ...]:
    """The tasks under which diffusers lists a class."""
    return tuple(task for task, table in _table()["tasks"].items() if pipeline in table.values())


def as_pipeline(model: ModelFacts, pipeline: str) -> ModelFacts:
    """The facts of a model as another class runs it; `misfit` has to be None."""
    use = use_of(pipeline)
    if use is None or pipeline == model.pipeline:
        return model
    entry = describe_pipeline(pipeline)
    components = {name: part for name, part in model.components.items() if name in use.components}
    return replace(model, pipeline=pipeline, **fields_of(entry, components))
