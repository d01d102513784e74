"""`dcompile explain RECIPE`: the plan, the runners-up, what would change the choice, and which limits bind.

`explanation` has the numbers, as plain data; `explain_lines` says them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dcompile.core.units import format_bytes, format_seconds
from dcompile.driver import Compiled
from dcompile.memory.alternatives import tightest
from dcompile.memory.fit import DeviceLoad
from dcompile.memory.host import host_need
from dcompile.plan.auto.bounds import asks_auto
from dcompile.plan.auto.candidates import plan_text
from dcompile.plan.auto.changes import changes
from dcompile.plan.auto.choose import Choice, choose
from dcompile.plan.auto.judge import Judged
from dcompile.plan.auto.reasons import fullness, lost, refused
from dcompile.plan.types import Decision, Plan
from dcompile.recipe.model import Devices, Parallel

Explanation = dict[str, Any]
SAID = ("devices", "devices.ids", "nodes", "devices.node_link", "estimate.speeds", "estimate.collectives")
"""Decisions that are shown beside the plan, by what they are about."""


def explanation(compiled: Compiled) -> Explanation:
    """What a person wants to know about a valid recipe's plan, as plain data.

    Args:
        compiled: a recipe that compiled. Where it names its plan, that is held against what `auto` would choose.

    Returns:
        `asks_auto`; `plan`: what the recipe runs; `chosen`: what `auto` chooses, None where nothing that it tries fits;
        `next_best`: the runners-up and why they lost; `changes`: what would be chosen for another job or machine;
        `limits`: what binds; `decisions` beside the plan. Sizes in bytes, times in seconds and estimated; `seconds` is
        a job's work without loading.
    """
    assert compiled.plan is not None
    assert compiled.recipe is not None
    assert compiled.facts is not None
    plan, recipe, facts = compiled.plan, compiled.recipe, compiled.facts
    choice = compiled.choice
    if choice is None:
        recipe = recipe.model_copy(update={"parallel": "auto"})
        choice, _ = choose(recipe, facts, lambda _: False, look_further=False)
    found: Explanation = {
        "asks_auto": asks_auto(compiled.recipe),
        "plan": _plan(plan),
        "chosen": None,
        "next_best": [],
        "changes": [],
        "limits": _limits(plan, choice),
        "decisions": [_decision(one) for one in plan.decisions if one.what in SAID],
    }
    if choice is None:
        return found
    winner = choice.winner
    return {
        **found,
        "chosen": {**_judged(winner), "because": choice.decisions[0].because},
        "next_best": [{**_judged(one), "because": lost(one, winner)} for one in choice.others],
        "changes": [
            {
                "what": one.what,
                "changes_choice": one.differs(choice),
                **(_judged(one.winner) if one.winner is not None else {"parallel": None, "seconds": None}),
            }
            for one in changes(recipe, facts)
        ],
    }


def _judged(one: Judged) -> dict[str, Any]:
    return {
        "parallel": one.candidate.text,
        "devices": one.candidate.devices,
        "seconds": one.seconds,
        "step_seconds": one.step_seconds,
    }


def _plan(plan: Plan) -> dict[str, Any]:
    parallel, timed = plan.checked.subject.recipe.parallel, plan.estimate
    return {
        "parallel": plan_text(parallel) if isinstance(parallel, Parallel) else "one device",
        "devices": plan.ranks * plan.placement.devices_per_rank,
        "seconds": timed["total_seconds"] - timed["load_seconds"] if timed else None,
        "step_seconds": timed["step_seconds"] if timed else None,
    }


def _decision(one: Decision) -> dict[str, Any]:
    return {"what": one.what, "chosen": one.chosen, "because": one.because}


def _limits(plan: Plan, choice: Choice | None) -> dict[str, Any]:
    """The fullest device and the host of the recipe's plan, what a step waits for, and why other plans cannot be."""
    load = tightest(plan.loads) if all(load.room_bytes is not None for load in plan.loads) else None
    timed = plan.estimate
    return {
        "memory": _memory(load) if load is not None else None,
        "host_memory": _host(plan),
        "offload_seconds": timed.get("offload_seconds"),
        "exchange_share": timed["communication_seconds"] / timed["step_seconds"] if timed else None,
        "refused": list(_refused(choice.judged)) if choice is not None else [],
    }


def _memory(load: DeviceLoad) -> dict[str, Any]:
    largest = max(load.components, key=lambda name: (load.components[name], name))
    return {
        "used_bytes": load.need_bytes + load.reserve_bytes,
        "memory_bytes": load.memory_bytes,
        "largest": largest,
        "largest_bytes": load.components[largest],
        "activation_bytes": load.activation_bytes,
        "text": fullness(load),
    }


def _host(plan: Plan) -> dict[str, Any] | None:
    """What loading needs of a node's host, where the recipe says what the host has."""
    subject = plan.checked.subject
    section = subject.recipe.devices
    if not isinstance(section, Devices) or section.host_memory is None:
        return None
    need = host_need(subject.recipe, subject.facts, subject.splits, subject.owned.placement)
    return {"used_bytes": need.ranks * need.own_bytes + need.shared_bytes, "memory": section.host_memory}


def _refused(judged: tuple[Judged, ...]) -> Iterator[dict[str, Any]]:
    """Plans that cannot be, by why, those of the most frequent reason first."""
    out: dict[str, list[Judged]] = {}
    for one in judged:
        if one.checked is None:
            out.setdefault(refused(one).partition(":")[0], []).append(one)
    for why, ones in sorted(out.items(), key=lambda item: (-len(item[1]), item[0])):
        code = why if why.startswith("DC") else "DC501"
        yield {"count": len(ones), "code": code, "parallel": ones[0].candidate.text, "because": refused(ones[0])}


def explain_lines(found: Explanation) -> Iterator[str]:
    """An explanation as lines of text."""
    chosen = found["chosen"]
    if chosen is None:
        yield "no plan that `auto` tries fits; the recipe's own is accepted by what it ignores"
        return
    if found["asks_auto"]:
        yield f"chosen: {chosen['parallel']}"
        yield f"  {chosen['because']}"
    else:
        yield from _beside_auto(found["plan"], chosen)
    yield from (f"  {_words(one)}: {one['because']}" for one in found["decisions"])
    yield ""
    yield "next best:"
    yield from (f"  {one['parallel']}: {one['because']}" for one in found["next_best"])
    if not found["next_best"]:
        yield "  no other plan is legal and fits"
    yield ""
    yield "what would change the choice:"
    yield from (f"  {one['what']}: {_other(one)}" for one in found["changes"] if one["changes_choice"])
    same = [one["what"] for one in found["changes"] if not one["changes_choice"]]
    if same:
        yield f"  not: {', '.join(same)}"
    yield ""
    yield "limits:"
    yield from _limit_lines(found["limits"])


def _words(decision: dict[str, Any]) -> str:
    """`2 of 8 devices`, `tensor within a node`, `estimate.speeds as measured`."""
    what, chosen = decision["what"], decision["chosen"]
    return str({"devices": f"{chosen} devices", "nodes": chosen}.get(what, f"{what} {chosen}"))


def _beside_auto(plan: dict[str, Any], chosen: dict[str, Any]) -> Iterator[str]:
    """The plan that the recipe names, and how it compares with the choice."""
    took = f", {format_seconds(plan['seconds'])} without loading (estimate)" if plan["seconds"] is not None else ""
    yield f"the recipe's plan: {plan['parallel']}{took}"
    if chosen["parallel"] == plan["parallel"]:
        yield "  `auto` would choose the same"
        return
    yield f"  `auto` would choose `{chosen['parallel']}`: {chosen['because']}"
    if plan["seconds"] is not None and chosen["seconds"]:
        yield f"  the recipe's plan takes {plan['seconds'] / chosen['seconds']:.2f} times as long"


def _other(change: dict[str, Any]) -> str:
    if change["parallel"] is None:
        return "nothing would fit"
    took = f", {format_seconds(change['seconds'])}" if change["seconds"] is not None else ""
    return f"{change['parallel']}{took}"


def _limit_lines(limits: dict[str, Any]) -> Iterator[str]:
    memory, host = limits["memory"], limits["host_memory"]
    if memory is not None:
        part = f"`{memory['largest']}` with {format_bytes(memory['largest_bytes'])}"
        yield f"  memory: the fullest device has {memory['text']}, the largest part of it {part}"
    if host is not None:
        yield f"  host: loading takes {format_bytes(host['used_bytes'])} of {host['memory']}"
    if limits["offload_seconds"] is not None:
        yield f"  offload: {format_seconds(limits['offload_seconds'])} of each call to copy weights from the host"
    if limits["exchange_share"] is not None:
        yield f"  exchange: {limits['exchange_share']:.0%} of a step"
    else:
        yield "  time: not known for these devices; `dcompile probe` measures them"
    for one in limits["refused"]:
        count = "1 plan" if one["count"] == 1 else f"{one['count']} plans"
        yield f"  {count}, such as `{one['parallel']}`: {one['because']}"
