"""A device that the placement counts holds nothing.

What it checks: every device of a replica under `device_map` or `device`, once everything is placed.

Why it matters: the device is reserved and paid for. Mostly a number was skipped (`0` and `2`), or there are more
devices than components.

Example: `device_map: {transformer: 0, text_encoder: 0, text_encoder_2: 2, vae: 2}`

Use instead: `device_map: {transformer: 0, text_encoder: 0, text_encoder_2: 1, vae: 1}`, and where it matters which
devices of the machine these are, `ids: [0, 2]` under `devices`

Source: our own; accelerate leaves whole GPUs empty in silence (row PDM-13, huggingface/accelerate#3041).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.layout.chosen import is_of, say_section
from dcompile.layout.placement import cannot_be_cut
from dcompile.recipe.model import Devices
from dcompile.rules.rule import Rule, Subject, warning


def check(subject: Subject) -> Iterator[Diagnostic]:
    splits, model = subject.splits, subject.facts.model
    placement = subject.owned.placement
    count = placement.devices_per_rank
    used = {device for held in placement.bytes_of.values() for device, size in held.items() if size}
    empty = [device for device in range(count) if device not in used]
    if not empty:
        return
    which = f"device {empty[0]}" if len(empty) == 1 else f"devices {', '.join(map(str, empty[:8]))}"
    message = f"{which} of the {count} that the placement counts would hold nothing"
    enough = f"{len(used)} devices are enough" if len(used) > 1 else "1 device is enough"
    if splits.balanced:
        largest = max(splits.components, key=lambda name: sum(placement.bytes_of[name].values()))
        can = cannot_be_cut(model.components[largest]) is None and count <= 8
        cut = f", or cut the largest: `device_map: {{{largest}: [{', '.join(map(str, range(count)))}]}}`" if can else ""
        hint = f"{enough}; `data: {count // len(used) * splits.data}` uses more{cut}"
        if count // len(used) < 2:
            hint = f"{enough}{cut}"
    else:
        hint = f"count from 0 without gaps; {enough}{_by_ids(subject, sorted(used), count)}"
    where = subject.given("parallel", "device_map") if splits.device_map else subject.given("parallel", "components")
    yield warning("DC462", message, hint, where)


def _by_ids(subject: Subject, used: list[int], count: int) -> str:
    """How to have just these devices of the machine, as the end of a hint."""
    section, devices = subject.recipe.devices, subject.facts.devices
    numbers = [replica * count + device for replica in range(subject.splits.data) for device in used]
    if not isinstance(section, Devices) or devices.kind == "cpu" or devices.nodes > 1:
        return ""
    if devices.per_node is None or max(numbers) >= devices.per_node or not is_of(section, devices.per_node):
        return ""
    which = f"device {numbers[0]}" if len(numbers) == 1 else f"devices {', '.join(map(str, numbers))}"
    so = f"devices 0 to {len(numbers) - 1}" if len(numbers) > 1 else "device 0"
    return f"; `{say_section(section, numbers)}` under `devices` makes {which} of these {so}"


RULE = Rule("DC462", check)
