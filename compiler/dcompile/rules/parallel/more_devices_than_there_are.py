"""The plan needs more devices than there are.

What it checks: ranks x devices of a rank against `per_node` x `nodes`; on several nodes that every rank has its
devices on one of them, and every node as many ranks; and that `per_node`, `gpus`, `ids` and a list under `memory` agree
on how many devices a node has.

Why it matters: the launcher starts ranks that share a device, or fails.

Example: `devices: {per_node: 2}` with `parallel: {tensor: 4}`

Use instead: `tensor: 2`

Source: torch 2.13.0, `distributed/device_mesh.py`: a mesh is no larger than the world (rows GEN-03, CPC-07, CPC-08,
TPC-07).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dcompile.core.diagnostics import Diagnostic, Path
from dcompile.core.flow import flow
from dcompile.layout.nodes import nodes_of
from dcompile.layout.tokens import divisors, say_choices
from dcompile.recipe.model import Devices
from dcompile.rules.rule import Rule, Subject, error

MOST_DEVICES = 4096
"""A plan names every device, so their number has a bound."""


def check(subject: Subject) -> Iterator[Diagnostic]:
    total = subject.facts.devices.total
    splits = subject.splits
    yield from _contradictions(subject)
    most = max(splits.ranks * splits.named_devices, total or 0)
    if most > MOST_DEVICES:
        where: Path = ("parallel",) if most > (total or 0) else ("devices",)
        yield error("DC407", f"{most} devices are more than a plan can have", f"use {MOST_DEVICES} or fewer", where)
        return
    if splits.balanced:
        if total is None:
            message = "`balanced` needs to know how many devices there are"
            yield error("DC407", message, "add `devices: {per_node: 2}`", ("parallel", "device_map"))
        elif total % splits.ranks:
            message = f"{total} devices cannot be divided by {splits.ranks} replicas"
            yield error("DC407", message, f"use {say_choices(divisors(total))}", subject.given("parallel", "data"))
        elif splits.named_devices > total // splits.ranks:
            each = total // splits.ranks
            message = f"device {splits.named_devices - 1} is named, and a replica has {each} (numbered from 0)"
            yield error("DC407", message, f"name a device below {each}", subject.given("parallel", "components"))
        else:
            yield from _nodes(subject, total // splits.ranks)
        return
    needed = splits.ranks * splits.named_devices
    is_mixed = splits.named_devices > 1 and any(axis != "data" for axis in splits.mesh)
    if total is not None and needed > total and splits.is_one_mesh and not is_mixed:  # DC415 or DC409 is the cause
        axes = [f"{axis} {degree}" for axis, degree in splits.mesh.items()]
        if splits.named_devices > 1:
            axes.append(f"the devices 0 to {splits.named_devices - 1} of a replica")
        message = f"the plan needs {needed} devices ({' x '.join(axes)}), and there are {total}"
        lower = "name lower devices" if splits.ranks == 1 else "lower a degree"
        nodes = subject.facts.devices.nodes
        more = f"devices.nodes: {-(-needed // (total // nodes))}" if nodes > 1 else f"devices.per_node: {needed}"
        yield error("DC407", message, f"{lower}, or set `{more}`", ("parallel",))
    elif splits.is_one_mesh:
        yield from _nodes(subject, splits.named_devices)


def _nodes(subject: Subject, devices_per_rank: int) -> Iterator[Diagnostic]:
    """Ranks that cannot be shared out over the nodes, though there are enough devices in all."""
    devices, ranks = subject.facts.devices, subject.splits.ranks
    if devices.nodes == 1 or devices.per_node is None or nodes_of(devices, ranks, devices_per_rank) is not None:
        return
    where = subject.given("devices", "nodes")
    if devices_per_rank > devices.per_node:
        message = f"a process would use {devices_per_rank} devices, and it has those of one node: {devices.per_node}"
        yield error("DC407", message, f"use `data: {devices.nodes}`, or fewer devices for each replica", where)
        return
    most = devices.nodes * (devices.per_node // devices_per_rank)
    sides = (range(ranks - 1, 0, -1), range(ranks + 1, most + 1))
    legal = ((count for count in side if nodes_of(devices, count, devices_per_rank) is not None) for side in sides)
    near = [count for side in legal if (count := next(side, None)) is not None]
    message = f"{ranks} ranks cannot be shared out evenly over {devices.nodes} nodes of {devices.per_node} devices"
    yield error("DC407", message, f"choose degrees whose product is {' or '.join(map(str, near))}", where)


def _contradictions(subject: Subject) -> Iterator[Diagnostic]:
    """Keys of `devices` that do not agree on how many devices a node has: each against those that say more of it."""
    section = subject.recipe.devices
    if not isinstance(section, Devices):
        return
    if section.ids is not None and len(set(section.ids)) < len(section.ids):
        yield error("DC407", "`ids` names a device twice", "name each device once", ("devices", "ids"))
    sizes = section.memory if isinstance(section.memory, tuple) else None
    lists = {"gpus": section.gpus, "memory": sizes, "ids": section.ids}
    given = {key: value for key, value in lists.items() if value is not None}
    if section.per_node is not None:
        for key, value in given.items():
            if section.per_node != len(value):
                message = f"`{key}` names {_devices(len(value))}, and `per_node` is {section.per_node}"
                yield error("DC407", message, f"leave `per_node` out, or set it to {len(value)}", ("devices", key))
    elif len({len(value) for value in given.values()}) > 1:
        (first, named), *others = given.items()
        key, value = next(other for other in others if len(other[1]) != len(named))
        if key == "memory":
            message = f"`memory` has {len(value)} sizes, and `gpus` names {_devices(len(named))}"
            yield error("DC407", message, "give one size for each device, or one for all", ("devices", "memory"))
            return
        what = "names" if first == "gpus" else "has the sizes of"
        message = f"`ids` names {_devices(len(value))}, and `{first}` {what} {_devices(len(named))}"
        yield error("DC407", message, _agreeing(section, first, named), ("devices", "ids"))


def _devices(count: int) -> str:
    return f"{count} device{'s' if count != 1 else ''}"


def _agreeing(section: Devices, key: str, named: Sequence[str | int]) -> str:
    """The list that `ids` asks for, where it can be told, else what both lists have to be."""
    ids = section.ids or ()
    if len(ids) < len(named) and max(ids) < len(named):
        return f"`{key}` says what each of `ids` is: write `{key}: {flow([named[number] for number in ids])}`"
    return f"give one entry under `{key}` and one under `ids` for each device that the job uses"


RULE = Rule("DC407", check)
