"""`plan.json`: the plan and its program as canonical JSON, equal byte for byte for equal recipes."""

from __future__ import annotations

import json
from typing import Any

from dcompile import __version__
from dcompile.core.units import format_bytes
from dcompile.facts.types import ComponentFacts
from dcompile.lower.program import Program
from dcompile.plan.types import Plan
from dcompile.recipe.canonical import recipe_digest

FORMAT_VERSION = 1
BAR_WIDTH = 40
"""Characters of a device's bar in the summary."""


def plan_document(plan: Plan, program: Program, name: str) -> dict[str, Any]:
    """The content of `plan.json`; `compiler/docs/plan-json.md` explains the keys."""
    subject = plan.checked.subject
    recipe, facts = subject.recipe, subject.facts
    requires = {"diffusers": facts.model.diffusers, **dict(sorted(recipe.requires.items()))}
    return {
        "format_version": FORMAT_VERSION,
        "tool_version": __version__,
        "name": name,
        "recipe_digest": recipe_digest(recipe),
        "requires": requires,
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
                "node": 0,
                "device": load.rank * plan.placement.devices_per_rank + load.device,
                "memory_bytes": load.memory_bytes,
                "weight_bytes": load.weight_bytes,
                "activation_bytes": load.activation_bytes,
                "reserve_bytes": load.reserve_bytes,
                "free_bytes": _free(load.memory_bytes, load.weight_bytes + load.activation_bytes + load.reserve_bytes),
                "components": {name: {"weight_bytes": size} for name, size in sorted(load.components.items())},
            }
            for load in plan.loads
        ],
        "traffic": plan.traffic,
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


def summary_lines(document: dict[str, Any]) -> list[str]:
    """One screen for people: per device what lies there and how full it is."""
    mesh = " x ".join(f"{axis} {degree}" for axis, degree in document["mesh"].items()) or "one process"
    lines = [f"{document['name']}: {document['strategy']} ({mesh})"]
    alike: dict[str, list[int]] = {}
    for device in document["devices"]:
        alike.setdefault("\n".join(_device_lines(device)), []).append(device["device"])
    for text, numbers in alike.items():
        which = f"device {numbers[0]}" if len(numbers) == 1 else f"devices {', '.join(map(str, numbers))}, each"
        lines.append(f"  {which}: {text}")
    for collective, moved in document["traffic"].items():
        lines.append(f"  a step: {moved['calls']} {collective} of {format_bytes(moved['bytes'])} in all")
    shares = [len(share) for share in document["program"]["run"]["shares"]]
    lines.append(f"  pictures: {sum(shares)}" + (f" ({', '.join(map(str, shares))})" if len(shares) > 1 else ""))
    return lines


def _device_lines(device: dict[str, Any]) -> list[str]:
    """How full a device is, with a bar, and what lies on it, largest first."""
    used = device["weight_bytes"] + device["activation_bytes"] + device["reserve_bytes"]
    memory = device["memory_bytes"]
    full = f" of {format_bytes(memory)}, {100 * used / memory:.0f} % full" if memory else ""
    lines = [f"{format_bytes(used)}{full}"]
    if memory:
        filled = min(BAR_WIDTH, round(BAR_WIDTH * used / memory))
        lines.append(f"    [{'#' * filled}{'.' * (BAR_WIDTH - filled)}]")
    held = [(name, part["weight_bytes"]) for name, part in device["components"].items()]
    parts = [*sorted(held, key=lambda item: -item[1]), ("activations (estimate)", device["activation_bytes"])]
    parts += [("reserve", device["reserve_bytes"])]
    return lines + [f"    {name:<24} {format_bytes(size):>12}" for name, size in parts if size]
