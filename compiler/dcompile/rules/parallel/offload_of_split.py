"""A component that is offloaded has its blocks on several devices.

What it checks: `offload` of a component that `device_map` cuts between its blocks.

Why it matters: what is offloaded comes to one device and leaves it. diffusers refuses to offload a pipeline that it has
placed, after it has loaded it.

Example: `parallel: {device_map: {transformer: [0, 1]}, components: {transformer: {offload: model}}}`

Use instead: `parallel: {device_map: {transformer: [0, 1]}, components: {text_encoder_2: {offload: model}}}`, or
`tensor`, under which each rank offloads its own part

Source: diffusers 0.42.1, `pipelines/pipeline_utils.py:1193` (row PDM-06); huggingface/diffusers#10300.
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.memory.offloading import can_be_offloaded, can_rest
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    splits = subject.splits
    recipe, model = subject.recipe, subject.facts.model
    can = [
        f"`{name}`" for name in splits.components if can_be_offloaded(splits, name) and can_rest(recipe, model, name)
    ]
    for name in sorted(splits.offloaded):
        if can_be_offloaded(splits, name):
            continue
        on = ", ".join(str(device) for device in splits.components[name].devices)
        ways = [f"put it on one device with `device_map: {{{name}: {splits.components[name].devices[0]}}}`"]
        ways += [f"offload what lies on one device: {', '.join(can)}"] if can else []
        message = f"`{name}` cannot be offloaded: its blocks lie on the devices {on}"
        yield error("DC470", message, "; ".join(ways), ("parallel", "components", name, "offload"))


RULE = Rule("DC470", check)
