"""The adapter's file cannot be used for its component.

What it checks: the header of an adapter that is on this machine: whether it is whole and a LoRA, which component it
changes, and whether the layers that it names are there and of its sizes. An adapter that is elsewhere is no error,
unless the model's folder is here and the adapter's file is not.

Why it matters: diffusers fails after every weight was loaded; layers that it does not find it leaves out with a note.

Example: `adapters: [{path: flux1.safetensors}]` with SDXL

Use instead: an adapter that was made for the model

Source: diffusers 0.42.1, `loaders/lora_base.py`, `loaders/peft.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from dcompile.core.diagnostics import Add, Diagnostic, Fix
from dcompile.facts.adapters import AdapterFacts, Layer
from dcompile.facts.pipelines import describe_pipeline
from dcompile.facts.types import ComponentFacts
from dcompile.recipe.model import Adapter
from dcompile.rules.rule import Rule, Subject, error, warning

_MADE_FOR = "use an adapter made for {}"


def check(subject: Subject) -> Iterator[Diagnostic]:
    for i, (adapter, facts) in enumerate(zip(subject.recipe.model.adapters, subject.facts.adapters, strict=False)):
        path = ("model", "adapters", i, "path")
        if facts is None:
            if subject.facts.model_is_local and _is_file_name(adapter.path):
                message = f"the model is on this machine, and the adapter `{adapter.path}` is not"
                yield error("DC444", message, "copy it there, or correct the path", path)
        elif facts.fault is not None:
            yield error("DC444", *facts.fault, path)
        else:
            yield from _misfits(subject, i, adapter, facts)


def _is_file_name(path: str) -> bool:
    """Whether a path cannot be a hub id."""
    return path.endswith(".safetensors") or path.startswith((".", "/"))


def _misfits(subject: Subject, i: int, adapter: Adapter, facts: AdapterFacts) -> Iterator[Diagnostic]:
    model, path = subject.facts.model, ("model", "adapters", i, "path")
    name = adapter.component or model.denoisers[0]
    able = describe_pipeline(model.pipeline)["adapters"]
    if not facts.components or name not in model.components or (able is not None and name not in able):
        return  # another program's format, or DC304 or DC443 is the cause
    # Files made for one denoiser serve another one too: diffusers calls both `transformer`.
    found = facts.components.get(name) or (facts.components.get("transformer") if name in model.denoisers else None)
    if found is None:
        others = " and ".join(f"`{other}`" for other in facts.components)
        message = f"`{facts.file}` changes {others}, not `{name}`"
        own = [other for other in facts.components if other in model.components]
        hint = f"set `component: {own[0]}`" if own else _MADE_FOR.format(model.id or model.pipeline)
        where = path if adapter.component is None else ("model", "adapters", i, "component")
        to = ("model", "adapters", i, "component")
        fix: Fix | None = None
        if len(own) == len(facts.components) == 1:
            fix = own[0] if adapter.component is not None else Add(to, own[0])
        yield error("DC444", message, hint, where, fix=fix)
        return
    component = model.components[name]
    if component.library != "diffusers":
        return  # transformers names the layers of an encoder in several ways
    shapes = _linear_shapes(component)
    unknown = [layer for layer in found if layer not in shapes]
    if unknown:
        message = (
            f"{len(unknown)} of the {len(found)} layers of `{facts.file}` are not in `{name}`, such as `{unknown[0]}`"
        )
        say = error if len(unknown) == len(found) else warning
        yield say("DC444", message, _MADE_FOR.format(model.id or model.pipeline), path)
        return
    for layer, made_for in found.items():
        if not _fits(layer, made_for, shapes[layer]):
            outputs, inputs = shapes[layer]
            sizes = f"{made_for.inputs} to {made_for.outputs}, not {inputs} to {outputs}"
            message = f"`{facts.file}` takes `{layer}` to be {sizes}"
            yield error("DC444", message, _MADE_FOR.format(model.id or model.pipeline), path)
            return


def _linear_shapes(component: ComponentFacts) -> dict[str, tuple[int, int]]:
    """Outputs and inputs of every layer with a weight, by its module's name; a convolution counts as a matrix."""
    shapes = {}
    for group in component.parameters:
        if group.name.endswith(".weight") and len(group.shape) > 1:
            for index in range(group.repeat):
                name = group.name.replace("*", str(index), 1).removesuffix(".weight")
                shapes[name] = (group.shape[0], prod(group.shape[1:]))
    return shapes


def _fits(layer: str, made_for: Layer, shape: tuple[int, int]) -> bool:
    """Whether the sizes agree; a control adapter of Flux widens the first layer (`loaders/lora_pipeline.py`)."""
    return made_for.outputs == shape[0] and (made_for.inputs == shape[1] or layer == "x_embedder")


RULE = Rule("DC444", check)
