"""Stage 6: a plan to a program: what the runtime does on every rank, as plain data without torch types."""

from __future__ import annotations

from typing import Any

from dcompile.facts.guidance import Guidance, guidance_of
from dcompile.facts.prompts import Row
from dcompile.facts.registry import names_of_drivers, picture_batches
from dcompile.facts.resolve import DeviceFacts
from dcompile.facts.types import ComponentFacts
from dcompile.layout.nodes import layout_nodes
from dcompile.layout.settings import CALL_NAMES
from dcompile.layout.shard import active_styles, parameter_shards
from dcompile.layout.splits import Split, is_merged
from dcompile.layout.stored import quantized_type
from dcompile.plan.types import ComponentPlan, Plan
from dcompile.recipe.model import Component, Devices, Recipe, Run

Program = dict[str, Any]
"""`compiler/docs/plan-json.md` lists the keys; `schemas/plan.schema.json` has their types."""


def in_order(value: Any) -> Any:
    """A user's value with the keys of its mappings sorted, at every depth."""
    if isinstance(value, dict):
        return {key: in_order(value[key]) for key in sorted(value)}
    return [in_order(item) for item in value] if isinstance(value, (list, tuple)) else value


def lower(plan: Plan) -> Program:
    """Lower a plan to the program that every rank runs."""
    subject = plan.checked.subject
    recipe, facts, splits = subject.recipe, subject.facts, subject.splits
    nodes = layout_nodes(facts.devices, splits, plan.placement.devices_per_rank)
    devices = recipe.devices if isinstance(recipe.devices, Devices) else Devices()
    return {
        "device_kind": facts.devices.kind,
        "ranks": splits.ranks,
        "nodes": nodes.count,
        "ranks_per_node": nodes.ranks_per_node,
        "devices_per_rank": plan.placement.devices_per_rank,
        "device_ids": list(devices.ids) if devices.ids else None,
        "device_names": _device_names(facts.devices, nodes.ranks_per_node * plan.placement.devices_per_rank),
        "mesh_axes": [[axis, degree] for axis, degree in plan.mesh.items()],
        "timeout_seconds": recipe.launch.timeout_seconds,
        "env": dict(sorted(recipe.launch.env.items())),
        "pipeline": _pipeline(recipe, plan),
        "denoisers": list(facts.model.denoisers),
        "components": {
            component.name: _component(component, plan, facts.model.components[component.name])
            for component in plan.components
        }
        | {
            name: _left_out(facts.model.components[name])
            for name, component in sorted(recipe.components.items())
            if component is None and name in facts.model.components
        },
        "run": _run(plan),
        "output": _output(plan),
    }


def _device_names(devices: DeviceFacts, count: int) -> list[list[str]] | None:
    """What drivers call each of the devices that the plan uses on a node: nothing where the table does not know."""
    if devices.kind == "cpu":
        return None
    names: dict[str, list[str]] = {}
    for of_driver, name in sorted(names_of_drivers().items()):
        names.setdefault(name, []).append(of_driver)
    return [names.get(devices.node[number % len(devices.node)].name, []) for number in range(count)]


def _pipeline(recipe: Recipe, plan: Plan) -> dict[str, Any]:
    model, facts = recipe.model, plan.checked.subject.facts
    scheduler = None
    if model.scheduler is not None:
        own = model.scheduler.class_ or facts.model.scheduler["class"]
        scheduler = {"class": own, **in_order(model.scheduler.model_extra or {})}
    adapters = [
        {
            "path": adapter.path,
            "weight": adapter.weight,
            "component": adapter.component or facts.model.denoisers[0],
            "fuse": is_merged(adapter, plan.checked.subject.splits),
        }
        for adapter in model.adapters
    ]
    return {
        "class": model.pipeline or facts.model.pipeline,
        "id": model.id,
        "path": model.path,
        "revision": model.revision,
        "variant": model.variant,
        "dtype": model.dtype or ("float32" if facts.devices.kind == "cpu" else "bfloat16"),
        "trust_remote_code": model.trust_remote_code,
        "scheduler": scheduler,
        "adapters": adapters,
    }


def _left_out(facts: ComponentFacts) -> dict[str, Any]:
    return {"class": facts.class_name, "library": facts.library, "omit": True}


def _component(component: ComponentPlan, plan: Plan, facts: ComponentFacts) -> dict[str, Any]:
    subject, name = plan.checked.subject, component.name
    split = subject.splits.components[name]
    own = subject.recipe.components.get(name)
    return {
        "class": facts.class_name,
        "library": facts.library,
        "dtype": component.dtype,
        "id": own.id if own is not None else None,
        "path": own.path if own is not None else None,
        "omit": False,
        "quantize": _quantize(own),
        "attention": component.attention,
        "tiling": bool(own is not None and own.tiling),
        "device": plan.placement.device_of.get(name, 0),
        "blocks": plan.placement.blocks_of.get(name),
        "offload": "model" if split.offload else None,
        "tensor": tensor_layout(facts, split) if split.tensor > 1 else None,
        "context": {"ring": split.ring, "ulysses": split.ulysses, "uneven": split.uneven}
        if split.context > 1
        else None,
    }


def _quantize(own: Component | None) -> dict[str, str] | None:
    if own is None or own.quantize is None:
        return None
    return {"method": own.quantize.method, "type": quantized_type(own.quantize)}


def tensor_layout(facts: ComponentFacts, split: Split) -> dict[str, Any]:
    """What a rank is told of a component under `tensor`: the hooks by module, and how each split parameter is cut."""
    return {
        "degree": split.tensor,
        "plan": "builtin",
        "styles": {
            style.module: {"style": style.style, "blocks": list(style.blocks)} for style in active_styles(facts)
        },
        "parameters": {
            name: {"dim": dim, "parts": list(parts)}
            for name, (dim, parts) in parameter_shards(facts, split.tensor).items()
        },
    }


def _names(guidance: Guidance) -> dict[str, str]:
    """The pipeline's names of the recipe's keys; without `true_cfg_scale` two branches go by `guidance_scale`."""
    return {**CALL_NAMES, "true_cfg": guidance.branches or CALL_NAMES["true_cfg"]}


def _negative_prompt(row: Row, run: Run, guidance: Guidance) -> str | None:
    """Two branches need a negative prompt; an empty one is what the pipelines' own examples use."""
    asks = run.true_cfg is not None or "true_cfg" in row.args
    return "" if row.negative_prompt is None and asks and guidance.takes_negative else row.negative_prompt


def _images(row: Row, plan: Plan) -> dict[str, Any]:
    """The row's input pictures with the sizes that the plan was made for; nothing where there are none."""
    subject = plan.checked.subject
    names = subject.recipe.run.images if row.images is None else row.images
    found = [subject.facts.pictures[name] for name in names or ()]
    sizes = [{"path": one.name, "height": one.height_px, "width": one.width_px} for one in found]
    return {"images": sizes} if sizes else {}


def _run(plan: Plan) -> dict[str, Any]:
    subject = plan.checked.subject
    run, settings, model = subject.recipe.run, subject.settings, subject.facts.model
    guidance = guidance_of(model)
    names = _names(guidance)
    call: dict[str, Any] = {
        "height": settings.asked_px[0],
        "width": settings.asked_px[1],
        "num_inference_steps": settings.steps,
    }
    if settings.asked_frames is not None:
        call["num_frames"] = settings.asked_frames
    for key in ("guidance", "true_cfg"):
        value = getattr(run, key)
        if value is not None:
            call[names[key]] = value
    call |= in_order(run.args)
    call = {name: value for name, value in call.items() if name in model.call_args}
    rows = [
        {
            "index": row.index,
            **({} if row.id is None else {"id": row.id}),
            "prompt": row.prompt,
            "negative_prompt": _negative_prompt(row, run, guidance),
            "seed": row.seed,
            "args": {names.get(key, key): in_order(row.args[key]) for key in sorted(row.args)} if row.args else {},
            **_images(row, plan),
        }
        for row in subject.facts.rows
    ]
    batch: dict[str, Any] = {"batch": run.batch}
    if run.batch > 1 and any("images" in row for row in rows):
        batch["images"] = picture_batches().get(model.pipeline, "shared")
    return {"rows": rows, **batch, "shares": [list(share) for share in plan.shares], "call": call}


def _output(plan: Plan) -> dict[str, Any]:
    subject = plan.checked.subject
    output = subject.recipe.output
    default = "png" if subject.settings.frames is None else "mp4"
    return {"dir": output.dir, "name": output.name, "format": output.format or default, "fps": subject.settings.fps}
