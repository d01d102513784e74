"""Measured values that do not belong to the machine that the recipe describes.

What it checks: `devices.measured`: that `speeds` has one entry for all devices of a node or one for each, and that
`collectives` says of every operation, number of ranks and size only once how long it took.

Why it matters: the estimate would use values of another machine, or one of two that contradict each other.

Example: `per_node: 4` with two `speeds`

Use instead: the file that `dcompile probe` writes on the machine itself

Source: our own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic, Path
from dcompile.recipe.model import Devices
from dcompile.rules.rule import Rule, Subject, error

AT: Path = ("devices", "measured")


def check(subject: Subject) -> Iterator[Diagnostic]:
    section = subject.recipe.devices
    measured = section.measured if isinstance(section, Devices) else None
    if measured is None:
        return
    if not measured.speeds and not measured.collectives:
        hint = "give it `speeds` or `collectives`, or leave it out"
        yield error("DC530", "`measured` has no value in it", hint, AT)
    count, per_node = len(measured.speeds), subject.facts.devices.per_node or 1
    if count > 1 and count != per_node:
        devices = f"{per_node} device" + ("s" if per_node > 1 else "")
        message = f"`speeds` has {count} entries, and a node has {devices}"
        hint = "give one for all devices" + (f", or {per_node}" if per_node > 1 else "")
        yield error("DC530", message, f"{hint}; `dcompile probe` measures a machine anew", (*AT, "speeds"))
    times = Counter((one.operation, one.ranks, one.bytes) for one in measured.collectives)
    for index, one in enumerate(measured.collectives):
        if times.pop((one.operation, one.ranks, one.bytes), 1) > 1:
            message = f"`{one.operation}` of {one.ranks} ranks with {one.bytes} bytes is there more than once"
            yield error("DC530", message, "keep one of them", (*AT, "collectives", index))


RULE = Rule("DC530", check)
