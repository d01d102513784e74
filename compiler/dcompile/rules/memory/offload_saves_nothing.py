"""A component is offloaded, and no device is less full for it.

What it checks: on accelerators, for each component that is offloaded, whether the fullest phase of any device needs
less than if it stayed.

Why it matters: its weights are copied for every call and nothing is won.

Example: Wan 2.2 with `components: {transformer: {offload: model}}`: when it is called, it lies beside `transformer_2`

Use instead: `components: {transformer: {offload: model}, transformer_2: {offload: model}}`, or leave it out

Source: our own; `memory/timeline.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.core.units import format_bytes
from dcompile.memory.offloading import can_be_offloaded, can_rest, device_needs
from dcompile.rules.rule import Rule, Subject, advice


def check(subject: Subject) -> Iterator[Diagnostic]:
    splits, facts = subject.splits, subject.facts
    offloaded = splits.offloaded
    if not offloaded or facts.devices.kind == "cpu":
        return
    owned = subject.owned
    need = device_needs(owned, offloaded)
    others = [
        name
        for name in splits.components
        if name not in offloaded and can_be_offloaded(splits, name) and can_rest(subject.recipe, facts.model, name)
    ]
    for name in sorted(offloaded):
        if device_needs(owned, offloaded - {name}) != need:
            continue
        ways = ["leave it out"]
        with_other = {other: max(device_needs(owned, {*offloaded, other})) for other in others}
        best = min(with_other, key=lambda other: with_other[other], default=None)
        if best is not None and with_other[best] < max(need):
            ways.append(f"offload `{best}` too: the fullest device then needs {format_bytes(with_other[best])}")
        message = f"offloading `{name}` saves nothing: the fullest device needs {format_bytes(max(need))} either way"
        yield advice("DC520", message, ", or ".join(ways), ("parallel", "components", name, "offload"))


RULE = Rule("DC520", check)
