"""A mixed box: which of its devices a plan uses, and in which order.

Ranks have equal shares and wait for the slowest, so of all sets of as many devices only some can be best: for each size
of memory the fastest of those that have as much. Together with the devices in the order in which they are written these
are all that is tried. A recipe says the same by `gpus` and `ids` (`layout/chosen.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.estimate.constants import rates_of
from dcompile.facts.resolve import Facts
from dcompile.layout.chosen import is_of
from dcompile.layout.settings import component_dtype
from dcompile.plan.auto.bounds import Bounds
from dcompile.recipe.model import Devices, Recipe

Numbers = tuple[int, ...]
"""Devices of a node, from 0 in the order in which the recipe lists them."""


def is_mixed(facts: Facts) -> bool:
    """Whether devices of a node differ in anything that is known of them."""
    return len(set(facts.devices.node)) > 1


def can_be_chosen(recipe: Recipe, facts: Facts, bounds: Bounds) -> bool:
    """Whether a plan may use other devices of a node than the first: one node, and nothing names them by number."""
    devices, fixed, section = facts.devices, bounds.fixed, recipe.devices
    if not is_mixed(facts) or devices.nodes > 1 or devices.per_node is None or devices.kind == "cpu":
        return False
    is_named = fixed.device_map is not None or any(own.device is not None for own in fixed.components.values())
    return isinstance(section, Devices) and is_of(section, devices.per_node) and not is_named


def sets_of(recipe: Recipe, facts: Facts, count: int) -> Iterator[Numbers]:
    """The sets of so many devices that are worth a try, each in order; first the first ones, as they are written."""
    devices = facts.devices
    numbers = range(devices.per_node or 1)
    node = [devices.node[number % len(devices.node)] for number in numbers]
    dtype = component_dtype(recipe, facts.model.denoisers[0], devices.kind)
    speeds = []
    for device in node:
        rates = rates_of(device, dtype)
        speeds.append(rates.matmul_flops if rates is not None else device.flops_per_second)
    found = {tuple(node[:count]): tuple(numbers[:count])}
    for least in sorted({device.memory_bytes for device in node}):
        able = sorted((n for n in numbers if node[n].memory_bytes >= least), key=lambda n: (-speeds[n], n))
        if len(able) >= count:
            fastest = tuple(able[:count])
            found.setdefault(tuple(node[n] for n in fastest), fastest)
    yield from found.values()
