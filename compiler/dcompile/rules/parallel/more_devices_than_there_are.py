"""The plan needs more devices than there are.

What it checks: ranks x devices of a rank against `per_node` x `nodes`.

Why it matters: the launcher starts ranks that share a device, or fails.

Example: `devices: {per_node: 2}` with `parallel: {tensor: 4}`

Use instead: `tensor: 2`

Source: rules.md GEN-03, CPC-07, TPC-07.
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic, Path
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
        return
    needed = splits.ranks * splits.named_devices
    if total is not None and needed > total:
        axes = " x ".join(f"{axis} {degree}" for axis, degree in splits.mesh.items()) or "the device map"
        of_each = f" x {splits.named_devices} devices each" if splits.named_devices > 1 else ""
        message = f"the plan needs {needed} devices ({axes}{of_each}), and there are {total}"
        yield error("DC407", message, f"lower a degree, or set `devices.per_node: {needed}`", ("parallel",))


def _contradictions(subject: Subject) -> Iterator[Diagnostic]:
    """`ids`, `gpus` and `per_node` that do not agree on how many devices a node has."""
    section = subject.recipe.devices
    if not isinstance(section, Devices):
        return
    if section.ids is not None and len(set(section.ids)) < len(section.ids):
        yield error("DC407", "`ids` names a device twice", "name each device once", ("devices", "ids"))
    for key in ("ids", "gpus"):
        named = getattr(section, key)
        if named is not None and section.per_node not in (None, len(named)):
            message = f"`{key}` names {len(named)} devices, and `per_node` is {section.per_node}"
            yield error("DC407", message, f"leave `per_node` out, or set it to {len(named)}", ("devices", key))


RULE = Rule("DC407", check)
