"""Stage 5: a checked recipe to a plan with a reason for every choice."""

from __future__ import annotations

from dcompile.estimate.job import estimate
from dcompile.estimate.traffic import step_traffic, step_transfers
from dcompile.facts.types import ComponentFacts
from dcompile.layout.attention import attention_use, has_choice, legal_backends
from dcompile.layout.clips import frames_per_second
from dcompile.layout.placement import Placement
from dcompile.layout.settings import component_dtype, recipe_of_row, settings_of
from dcompile.layout.shard import count_parameters
from dcompile.layout.splits import Split
from dcompile.layout.stored import TYPES, Storage, quantized_matrices, storage_of
from dcompile.memory.fit import device_loads
from dcompile.plan.measured import measured_decisions
from dcompile.plan.on_nodes import node_decisions
from dcompile.plan.types import ComponentPlan, Decision, Plan
from dcompile.recipe.model import Recipe
from dcompile.rules.check import CheckedRecipe
from dcompile.rules.rule import Subject


def divide(count: int, replicas: int) -> tuple[tuple[int, ...], ...]:
    """Rows of each replica, in order: the first `count % replicas` get one more (17 on 8: 3, 2, 2, 2, 2, 2, 2, 2).

    The arithmetic is that of Accelerate's `PartialState.split_between_processes` (1.15, `state.py`).
    """
    each, extra = divmod(count, replicas)
    shares, start = [], 0
    for replica in range(replicas):
        stop = start + each + (replica < extra)
        shares.append(tuple(range(start, stop)))
        start = stop
    return tuple(shares)


def strategy_of(subject: Subject, placement: Placement) -> str:
    """`single`, the one kind by which anything is split, or `hybrid` for two or more kinds."""
    splits = subject.splits
    kinds = {"data"} if splits.data > 1 else set()
    if placement.devices_per_rank > 1:
        kinds.add("device_map")
    tensor = {split.tensor for split in splits.components.values() if split.tensor > 1}
    context = {(split.ring, split.ulysses) for split in splits.components.values() if split.context > 1}
    kinds |= ({"tensor"} if tensor else set()) | ({"context"} if context else set())
    if len(kinds) > 1 or len(tensor) > 1 or len(context) > 1:
        return "hybrid"
    return next(iter(kinds), "single")


OFFLOADED = "its weights rest in host memory, and are on the device while it is called"
OFFLOADED_ON_CPU = f"{OFFLOADED}; here both are the same memory, so nothing is saved"


def _layout(name: str, split: Split, placement: Placement, kind: str) -> tuple[dict[str, object], str]:
    layout, because = _place(name, split, placement)
    if not split.offload:
        return layout, because
    return {**layout, "offload": "model"}, f"{because}; {OFFLOADED_ON_CPU if kind == 'cpu' else OFFLOADED}"


def _place(name: str, split: Split, placement: Placement) -> tuple[dict[str, object], str]:
    if split.tensor > 1:
        because = f"`tensor: {split.tensor}`; the library's own plan, our own is not verified yet"
        return {"kind": "tensor", "axis": "tensor", "degree": split.tensor, "plan": "builtin"}, because
    if split.context > 1:
        layout: dict[str, object] = {"kind": "context", "ring": split.ring, "ulysses": split.ulysses}
        return {**layout, "uneven": split.uneven}, "the sequence is split; weights are whole on every rank"
    if name in placement.blocks_of:
        devices = sorted(placement.bytes_of[name])
        return {"kind": "blocks", "devices": devices}, "cut between blocks so that the fullest device is least full"
    if placement.devices_per_rank > 1:
        because = "the recipe names its device" if split.devices else "packed so that the fullest device is least full"
        return {"kind": "device", "device": placement.device_of[name]}, because
    return {"kind": "replicated"}, "nothing splits it, so every rank holds it whole"


def _quantized(name: str, component: ComponentFacts, storage: Storage) -> Decision:
    count, _ = quantized_matrices(component, storage)
    because = (
        f"the weights of {count} linear layers in fewer bits change pictures: this plan's are compared with those of "
        "one device that quantizes the same way"
    )
    others = tuple(f"{storage.method} {one}" for one in TYPES[str(storage.method)] if one != storage.type)
    return Decision(f"components.{name}.quantize", f"{storage.method} {storage.type}", because, others)


def build_plan(checked: CheckedRecipe, written: Recipe, chosen: tuple[Decision, ...] = ()) -> Plan:
    """Lay out every component and say what each device holds, what a step moves, and why.

    Args:
        checked: the recipe with its plan.
        written: the recipe as it was read: with `auto`, where the plan was chosen.
        chosen: the decisions of that choice.
    """
    subject = checked.subject
    recipe, facts, splits = subject.recipe, subject.facts, subject.splits
    placement = subject.owned.placement
    loads = device_loads(recipe, facts, splits, owned=subject.owned)
    decisions = [*chosen]
    decisions += [Decision(what, str(number), why) for what, number, why in subject.settings.chosen]
    components = []
    for name, split in splits.components.items():
        layout, because = _layout(name, split, placement, facts.devices.kind)
        dtype = component_dtype(recipe, name, facts.devices.kind)
        own = recipe.components.get(name)
        if (own is None or own.dtype is None) and recipe.model.dtype is None:
            decisions.append(Decision(f"components.{name}.dtype", dtype, f"the default on {facts.devices.kind}"))
        storage = storage_of(recipe, name, facts.devices.kind)
        if storage.method is not None:
            decisions.append(_quantized(name, facts.model.components[name], storage))
        attention = own.attention if own is not None and has_choice(facts.model.components[name]) else None
        if attention is None and name in facts.model.denoisers and has_choice(facts.model.components[name]):
            legal = legal_backends(attention_use(recipe, facts, splits, name, split))
            attention = legal[0]
            because_attention = "the first that is legal for device, dtype, mask and split, those of torch first"
            what = f"components.{name}.attention"
            decisions.append(Decision(what, attention, because_attention, legal[1:]))
        components.append(
            ComponentPlan(
                name=name,
                dtype=dtype,
                layout=layout,
                parameters=count_parameters(facts.model.components[name]),
                weight_bytes=sum(placement.bytes_of[name].values()),
                because=because,
                attention=attention,
            )
        )
    decisions += measured_decisions(recipe, facts, splits)
    decisions += node_decisions(facts, splits, placement.devices_per_rank)
    largest = max(loads, key=lambda load: load.activation_bytes)
    if largest.row is not None:
        shape = settings_of(recipe_of_row(recipe, facts.rows[largest.row]), facts)
        size = f"{shape.width_px}x{shape.height_px}" + (f", {shape.frames} frames" if shape.frames else "")
        because = "of all rows the one with the largest activations, which the devices are judged by"
        decisions.append(Decision("devices.activation_bytes", f"picture {largest.row}: {size}", because))
    if recipe.output.fps is None and subject.settings.fps is not None:
        fps, because_fps = frames_per_second(facts.model, recipe.run.args)
        decisions.append(Decision("output.fps", f"{fps:g}", because_fps))
    if recipe.run.seed is None and recipe.run.seeds is None:
        decisions.append(Decision("run.seed", "0", "the recipe has none, and ranks must draw the same noise"))
    return Plan(
        checked=checked,
        written=written,
        strategy=strategy_of(subject, placement),
        mesh=splits.mesh,
        placement=placement,
        components=tuple(components),
        loads=loads,
        traffic=step_traffic(recipe, facts, splits, subject.settings)
        | step_transfers(recipe, facts, splits, placement, subject.settings),
        estimate=estimate(recipe, facts, splits, placement),
        shares=divide(len(facts.rows), splits.data),
        decisions=tuple(decisions),
    )
