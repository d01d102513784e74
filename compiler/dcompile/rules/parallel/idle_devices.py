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
from dcompile.layout.nodes import layout_nodes
from dcompile.rules.rule import Rule, Subject, warning


def check(subject: Subject) -> Iterator[Diagnostic]:
    total = subject.facts.devices.total
    used = subject.splits.ranks * subject.splits.named_devices
    if total is None or subject.splits.balanced or used >= total or not subject.splits.is_one_mesh:
        return
    spare = total // used
    devices, each, data = subject.facts.devices, subject.splits.named_devices, subject.splits.data
    nodes = layout_nodes(devices, subject.splits, each)
    fewer = f"`nodes: {nodes.count}`" if nodes.count < devices.nodes else f"`per_node: {nodes.ranks_per_node * each}`"
    hint = f"set {fewer}"
    if spare > 1:
        busy = min(spare, len(subject.facts.rows) // data)  # replicas that have a picture to make
        count = busy if busy > 1 else spare
        uses = f"`data: {count * data}` uses {count * used} of them"
        hint = uses if busy > 1 else f"{uses} where there is a picture for each; else set {fewer}"
    where = subject.given("parallel") or subject.given("devices")
    yield warning("DC408", f"the plan uses {used} of {total} devices", hint, where)


RULE = Rule("DC408", check)
