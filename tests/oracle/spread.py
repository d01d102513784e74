"""Cuts a component where its recipe lists several devices, whatever the packing would do with one so small."""

from __future__ import annotations

from itertools import groupby
from typing import Any

Plan = dict[str, Any]


def spread(plan: Plan, parallel: dict[str, Any]) -> Plan:
    """A plan whose listed components are cut: the blocks of each stack are dealt to the devices in order, in runs.

    Packing leaves a tiny component whole where activations are most of what a device holds, so which cuts are compared
    would hang on its estimates. What is no block stays where packing has put it.

    Args:
        plan: the plan of a recipe; changed in place.
        parallel: the recipe's section; its `device_map` may list devices for a component.
    """
    listed = parallel.get("device_map", {})
    for name, devices in listed.items() if isinstance(listed, dict) else ():
        blocks = plan["program"]["components"][name]["blocks"]
        if not isinstance(devices, list) or not blocks:
            continue
        members = [part for part in blocks if part.rpartition(".")[2].isdecimal()]
        for number, (_, stack) in enumerate(groupby(members, key=lambda part: part.rpartition(".")[0])):
            dealt = list(stack)
            for at, part in enumerate(dealt):
                # Stacks of one block go to a device each.
                place = at * len(devices) // len(dealt) if len(dealt) > 1 else number % len(devices)
                blocks[part] = devices[place]
    return plan
