"""Stage 5: a checked recipe to a plan with a reason for every choice."""

from __future__ import annotations

from dcompile.layout.attention import legal_backends
from dcompile.layout.placement import Placement, place
from dcompile.layout.settings import component_dtype
from dcompile.layout.shard import count_parameters
from dcompile.layout.splits import Split
from dcompile.memory.fit import device_loads
from dcompile.plan.traffic import step_traffic
from dcompile.plan.types import ComponentPlan, Decision, Plan
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


def strategy_of(subject: Subject) -> str:
    """`single`, the one kind by which anything is split, or `hybrid` for two or more kinds."""
    splits = subject.splits
    kinds = {"data"} if splits.data > 1 else set()
    if splits.device_map or splits.named_devices > 1:
        kinds.add("device_map")
    tensor = {split.tensor for split in splits.components.values() if split.tensor > 1}
    context = {(split.ring, split.ulysses) for split in splits.components.values() if split.context > 1}
    kinds |= ({"tensor"} if tensor else set()) | ({"context"} if context else set())
    if len(kinds) > 1 or len(tensor) > 1 or len(context) > 1:
        return "hybrid"
    return next(iter(kinds), "single")


def _layout(name: str, split: Split, placement: Placement) -> tuple[dict[str, object], str]:
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


def build_plan(checked: CheckedRecipe) -> Plan:
    """Lay out every component and say what each device holds, what a step moves, and why."""
    subject = checked.subject
    recipe, facts, splits = subject.recipe, subject.facts, subject.splits
    placement = place(recipe, facts, splits)
    loads = device_loads(recipe, facts, splits, subject.settings)
    decisions = [
        Decision(what, str(chosen), f"the default of {facts.model.pipeline}")
        for what, chosen in subject.settings.chosen
    ]
    components = []
    for name, split in splits.components.items():
        layout, because = _layout(name, split, placement)
        dtype = component_dtype(recipe, name, facts.devices.kind)
        own = recipe.components.get(name)
        if (own is None or own.dtype is None) and recipe.model.dtype is None:
            decisions.append(Decision(f"components.{name}.dtype", dtype, f"the default on {facts.devices.kind}"))
        attention = own.attention if own is not None else None
        if attention is None and name in facts.model.denoisers and facts.model.components[name].library == "diffusers":
            legal = legal_backends(facts.devices.kind, split)
            attention = legal[0]
            because_attention = "the first backend that is legal for device and split, those of torch first"
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
    if recipe.run.seed is None and recipe.run.seeds is None:
        decisions.append(Decision("run.seed", "0", "the recipe has none, and ranks must draw the same noise"))
    return Plan(
        checked=checked,
        strategy=strategy_of(subject),
        mesh=splits.mesh,
        placement=placement,
        components=tuple(components),
        loads=loads,
        traffic=step_traffic(subject),
        estimate={},
        shares=divide(len(facts.rows), splits.data),
        decisions=tuple(decisions),
    )
