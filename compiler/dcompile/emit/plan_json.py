"""`plan.json`: the plan and its program as canonical JSON, equal byte for byte for equal recipes."""

from __future__ import annotations

import json
from typing import Any

from dcompile import __version__
from dcompile.facts.types import ComponentFacts
from dcompile.layout.nodes import layout_nodes
from dcompile.lower.program import Program
from dcompile.plan.types import Plan
from dcompile.recipe.canonical import recipe_digest

FORMAT_VERSION = 1


def plan_document(plan: Plan, program: Program, name: str) -> dict[str, Any]:
    """The content of `plan.json`; `compiler/docs/plan-json.md` explains the keys."""
    subject = plan.checked.subject
    recipe, facts = subject.recipe, subject.facts
    nodes = layout_nodes(facts.devices, subject.splits, plan.placement.devices_per_rank)
    return {
        "format_version": FORMAT_VERSION,
        "tool_version": __version__,
        "name": name,
        "recipe_digest": recipe_digest(plan.written),
        "requires": facts.model.requires(recipe.requires),
        "strategy": plan.strategy,
        "mesh": plan.mesh,
        "components": {
            component.name: {
                "class": _facts(plan, component.name).class_name,
                "layout": component.layout,
                "parameters": component.parameters,
                "weight_bytes": component.weight_bytes,
                "because": component.because,
            }
            for component in sorted(plan.components, key=lambda component: component.name)
        },
        "devices": [
            {
                "rank": load.rank,
                "node": nodes.node_of(load.rank),
                "device": load.rank * plan.placement.devices_per_rank + load.device,
                "memory_bytes": load.memory_bytes,
                "weight_bytes": load.weight_bytes,
                "activation_bytes": load.activation_bytes,
                "reserve_bytes": load.reserve_bytes,
                "free_bytes": _free(load.memory_bytes, load.weight_bytes + load.activation_bytes + load.reserve_bytes),
                "components": {name: {"weight_bytes": size} for name, size in sorted(load.components.items())},
                "phases": [
                    {
                        "phase": phase.name,
                        "weight_bytes": phase.weight_bytes,
                        "activation_bytes": phase.activation_bytes,
                        "components": sorted(phase.components),
                        "called": phase.called,
                    }
                    for phase in load.phases
                ],
            }
            for load in plan.loads
        ],
        "traffic": plan.traffic,
        **({"estimate": plan.estimate} if plan.estimate else {}),
        "decisions": [
            {
                "what": decision.what,
                "chosen": decision.chosen,
                "because": decision.because,
                "alternatives": list(decision.alternatives),
            }
            for decision in plan.decisions
        ],
        "program": program,
    }


def _facts(plan: Plan, name: str) -> ComponentFacts:
    return plan.checked.subject.facts.model.components[name]


def _free(memory_bytes: int | None, used_bytes: int) -> int | None:
    return None if memory_bytes is None else memory_bytes - used_bytes


def canonical_json(document: dict[str, Any]) -> str:
    """UTF-8, LF, two spaces, floats to six significant digits, no key sorted: the document is in its order already."""
    return json.dumps(_round(document), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _round(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _round(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_round(item) for item in value]
    return value
