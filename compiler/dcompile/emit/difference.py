"""What differs between two plans: where components lie, what each device holds, what a step moves, and all the rest.

A plan's name, its recipe's digest and the version of the tool do not count: they say which plan it is, not what it
does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from dcompile.emit.plan_json import canonical_json

Difference = dict[str, Any]
NO_DIFFERENCE = ("name", "recipe_digest", "tool_version")
OWN_PART = ("strategy", "mesh", "components", "devices", "traffic", "estimate", "decisions")
DEVICE_KEYS = ("rank", "node", "memory_bytes", "weight_bytes", "activation_bytes", "reserve_bytes", "free_bytes")


def as_written(document: dict[str, Any]) -> dict[str, Any]:
    """A plan as its file has it: floats to six digits, lists for tuples."""
    written: dict[str, Any] = json.loads(canonical_json(document))
    return written


def difference(old: dict[str, Any], new: dict[str, Any]) -> Difference:
    """What differs between two plans, both as their files have them.

    Returns:
        `is_different`; `strategy` and `mesh`, None where they are the same; `components`, `devices`, `traffic`,
        `estimate`, `decisions` and `other`: lists that hold only what differs. Every pair is `{"a": ..., "b": ...}`,
        with None for what one side does not have. Sizes in bytes, times in seconds. `other` names the paths of
        whatever else differs, prompts and steps among them.
    """
    found: Difference = {
        "strategy": _pair(old["strategy"], new["strategy"]),
        "mesh": _pair(old["mesh"], new["mesh"]),
        "components": _components(old, new),
        "devices": _devices(old, new),
        "traffic": _by_name("collective", old["traffic"], new["traffic"]),
        "estimate": _by_name("what", old.get("estimate", {}), new.get("estimate", {})),
        "decisions": _decisions(old, new),
        "other": _other(old, new),
    }
    return {"is_different": any(found.values()), **found}


def _pair(a: Any, b: Any) -> dict[str, Any] | None:
    return None if a == b else {"a": a, "b": b}


def _names(a: dict[str, Any], b: dict[str, Any]) -> list[str]:
    return [*a, *(name for name in b if name not in a)]


def _by_name(key: str, a: dict[str, Any], b: dict[str, Any]) -> list[dict[str, Any]]:
    return [{key: name, "a": a.get(name), "b": b.get(name)} for name in _names(a, b) if a.get(name) != b.get(name)]


def _components(old: dict[str, Any], new: dict[str, Any]) -> list[dict[str, Any]]:
    """Components that are of another class, laid out in another way, or that one side does not have."""

    def laid(plan: dict[str, Any], name: str) -> dict[str, Any] | None:
        component = plan["components"].get(name)
        return component and {key: component[key] for key in ("class", "layout", "parameters", "weight_bytes")}

    found = {name: (laid(old, name), laid(new, name)) for name in _names(old["components"], new["components"])}
    return [{"name": name, "a": a, "b": b} for name, (a, b) in found.items() if a != b]


def _devices(old: dict[str, Any], new: dict[str, Any]) -> list[dict[str, Any]]:
    """Devices by their number: their totals, and of their components those whose bytes differ."""
    a, b = ({device["device"]: device for device in plan["devices"]} for plan in (old, new))
    found = []
    for number in sorted({*a, *b}):
        one, other = a.get(number), b.get(number)
        if one == other:
            continue
        held = [device["components"] if device else {} for device in (one, other)]
        components = [
            {"name": name, **pair}
            for name in _names(*held)
            if (pair := _pair(*(parts[name]["weight_bytes"] if name in parts else None for parts in held)))
        ]
        totals = {key: _pair(one and one[key], other and other[key]) for key in DEVICE_KEYS}
        found.append(
            {
                "device": number,
                "only_in": "b" if one is None else "a" if other is None else None,
                **{key: pair for key, pair in totals.items() if pair},
                "components": components,
                "phases": _phases(one, other),
            }
        )
    return found


def _phases(a: dict[str, Any] | None, b: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The phases of a job in which a device holds something else."""
    sides = [{phase["phase"]: phase for phase in device["phases"]} if device else {} for device in (a, b)]
    return _by_name("phase", *sides)


def _decisions(old: dict[str, Any], new: dict[str, Any]) -> list[dict[str, Any]]:
    """Decisions that came out in another way, or that only one side had to take."""
    a, b = (
        {decision["what"]: {key: decision[key] for key in ("chosen", "because")} for decision in plan["decisions"]}
        for plan in (old, new)
    )
    chosen = [{what: decision["chosen"] for what, decision in side.items()} for side in (a, b)]
    return [
        {"what": one["what"], "a": a.get(one["what"]), "b": b.get(one["what"])} for one in _by_name("what", *chosen)
    ]


def _other(old: dict[str, Any], new: dict[str, Any]) -> list[dict[str, Any]]:
    """Everything that no part of its own shows, with the path of the outermost value that one side lacks."""
    a, b = (
        {key: value for key, value in plan.items() if key not in (*OWN_PART, *NO_DIFFERENCE)} for plan in (old, new)
    )
    return list(_leaves("", a, b))


def _leaves(path: str, a: Any, b: Any) -> Iterator[dict[str, Any]]:
    if a == b:
        return
    if isinstance(a, dict) and isinstance(b, dict):
        for name in _names(a, b):
            where = f"{path}.{name}" if path else name
            if name in a and name in b:
                yield from _leaves(where, a[name], b[name])
            else:
                yield {"path": where, "only_in": "a" if name in a else "b", "a": a.get(name), "b": b.get(name)}
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for at, (one, other) in enumerate(zip(a, b, strict=True)):
            yield from _leaves(f"{path}[{at}]", one, other)
    else:
        yield {"path": path, "only_in": None, "a": a, "b": b}
