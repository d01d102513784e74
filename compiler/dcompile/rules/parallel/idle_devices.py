"""Devices are paid for and not used.

What it checks: ranks x devices of a rank against `per_node` x `nodes`.

Why it matters: an idle device costs as much as a busy one.

Example: `devices: {per_node: 4}` with `parallel: {tensor: 2}`

Use instead: `tensor: 4`, or `data: 2` with it

Source: our own.
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.layout.chosen import is_of, say_section
from dcompile.layout.nodes import Nodes, layout_nodes
from dcompile.recipe.model import Devices
from dcompile.rules.rule import Rule, Subject, warning


def check(subject: Subject) -> Iterator[Diagnostic]:
    total = subject.facts.devices.total
    used = subject.splits.ranks * subject.splits.named_devices
    if total is None or subject.splits.balanced or used >= total or not subject.splits.is_one_mesh:
        return
    spare = total // used
    devices, each, data = subject.facts.devices, subject.splits.named_devices, subject.splits.data
    nodes = layout_nodes(devices, subject.splits, each)
    fewer = f"`nodes: {nodes.count}`" if nodes.count < devices.nodes else f"`{_first(subject, nodes, each)}`"
    hint = f"set {fewer}"
    if spare > 1:
        busy = min(spare, len(subject.facts.rows) // data)  # replicas that have a picture to make
        count = busy if busy > 1 else spare
        uses = f"`data: {count * data}` uses {count * used} of them"
        hint = uses if busy > 1 else f"{uses} where there is a picture for each; else set {fewer}"
    where = subject.given("parallel") or subject.given("devices")
    yield warning("DC408", f"the plan uses {used} of {total} devices", hint, where)


def _first(subject: Subject, nodes: Nodes, each: int) -> str:
    """What `devices` says of as many as the plan uses, whichever of its keys says how many there are."""
    section, devices, count = subject.recipe.devices, subject.facts.devices, nodes.ranks_per_node * each
    if isinstance(section, Devices) and devices.per_node is not None and is_of(section, devices.per_node):
        return say_section(section, range(count))
    return f"per_node: {count}"


RULE = Rule("DC408", check)
