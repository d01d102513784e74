"""`device_map` meets a split over ranks, or itself.

What it checks: `device_map` and `device` beside `tensor` and `context`, and beside each other: one place for each
component, each device once.

Why it matters: every rank would spread over all devices and issue collectives from the wrong ones; diffusers does not
refuse it.

Example: `parallel: {device_map: balanced, tensor: 2}`

Use instead: one of them

Source: diffusers 0.42.1 (rows TPC-11, CMB-04, CMB-05).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic, Path
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    splits = subject.splits
    split_axes = [axis for axis in splits.mesh if axis != "data"]
    if split_axes and (splits.device_map or splits.named_devices > 1):
        placed = "`device_map`" if splits.device_map else "the `device` of a component"
        message = f"{placed} cannot be combined with `{split_axes[0]}`: each rank of a split has one device"
        where: Path = ("parallel", "device_map") if splits.device_map else ("parallel", "components")
        yield error("DC409", message, "keep one of the two; `data` multiplies with either", where)
    at = subject.parallel.device_map
    for name, own in subject.parallel.components.items():
        if (
            own.device is not None
            and isinstance(at, dict)
            and at.get(name, own.device) not in (own.device, (own.device,))
        ):
            message = f"`device_map` and `device` put `{name}` in two places"
            yield error("DC409", message, "keep one of the two", ("parallel", "components", name, "device"))
    for name, split in splits.components.items():
        if len(set(split.devices)) != len(split.devices):
            yield error("DC409", f"`{name}` names a device twice", "name each device once", split.where)


RULE = Rule("DC409", check)
