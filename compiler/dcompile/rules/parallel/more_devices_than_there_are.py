"""The plan needs more devices than there are.

What it checks: ranks x devices of a rank against `per_node` x `nodes`.

Why it matters: the launcher starts ranks that share a device, or fails.

Example: `devices: {per_node: 2}` with `parallel: {tensor: 4}`

Use instead: `tensor: 2`

Source: rules.md GEN-03, CPC-07, TPC-07.
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.layout.tokens import divisors, say_choices
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    total = subject.facts.devices.total
    splits = subject.splits
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


RULE = Rule("DC407", check)
