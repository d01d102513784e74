"""A mixed box: which of its devices a plan uses, and in which order.

Ranks have equal shares and wait for the slowest, so a set of devices is as good as the kinds that it has, and only sets
with no kind too many can be best. Devices of one process have shares of their own, so for placements every set counts
that differs in how many it has of a kind, and for a component that is cut the order of kinds besides. The devices in
the order in which they are written come first. A recipe says the same by `gpus` and `ids` (`layout/chosen.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, islice, permutations

from dcompile.facts.resolve import Facts
from dcompile.facts.types import HardwareFacts
from dcompile.layout.chosen import is_of
from dcompile.plan.auto.bounds import Bounds
from dcompile.recipe.model import Devices, Recipe

MOST_SETS = 32
"""Sets of devices of one size that are tried: a box of eight with three kinds has less of any size."""
MOST_ORDERS = 24
"""Orders in which kinds fill the places of replicas."""
MOST_ORDERED = 4
"""Devices of a replica up to which a chain goes through them in every order."""

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


def _kinds(facts: Facts) -> dict[HardwareFacts, list[int]]:
    """The numbers of the devices of each kind."""
    devices, kinds = facts.devices, dict[HardwareFacts, list[int]]()
    for number in range(devices.per_node or 1):
        kinds.setdefault(devices.node[number % len(devices.node)], []).append(number)
    return kinds


def sets_of(facts: Facts, inner: int, data: int) -> Iterator[Numbers]:
    """The devices that are worth a try for `data` replicas of `inner` ranks: first the first ones, as written.

    Then sets with no kind too many: with replicas of one kind each, where there are as many, and of any devices.
    """
    node, kinds, count = facts.devices.node, _kinds(facts), inner * data
    written = tuple(range(count))
    yield written
    seen = {_same(written, node)}
    for of in dict.fromkeys((inner, 1)):
        units = {kind: numbers[: len(numbers) // of * of] for kind, numbers in kinds.items()}
        for chosen in islice(_needed({kind: len(numbers) for kind, numbers in units.items()}, count), MOST_SETS):
            numbers = _of_every([units[kind] for kind in chosen], of, count)
            if (same := _same(numbers, node)) not in seen:
                seen.add(same)
                yield numbers


def _same(numbers: Numbers, node: tuple[HardwareFacts, ...]) -> tuple[HardwareFacts, ...]:
    """What devices are."""
    return tuple(node[number % len(node)] for number in numbers)


def _needed(most: dict[HardwareFacts, int], count: int) -> Iterator[tuple[HardwareFacts, ...]]:
    """The kinds that have so many devices together, and without any of them fewer; those of the fewest kinds first."""
    found: list[set[HardwareFacts]] = []
    for many in range(1, len(most) + 1):
        for chosen in combinations(most, many):
            if sum(most[kind] for kind in chosen) >= count and not any(one <= set(chosen) for one in found):
                found.append(set(chosen))
                yield chosen


def _of_every(numbers: list[list[int]], of: int, count: int) -> Numbers:
    """So many devices of some kinds, all of which are needed for that, in groups of `of`; in order where that is 1."""
    groups = [[own[at : at + of] for at in range(0, len(own), of)] for own in numbers]
    others = sorted(group for own in groups for group in own[1:])
    taken = sorted([own[0] for own in groups] + others[: count // of - len(groups)])
    return tuple(number for group in taken for number in group)


def orders_of(facts: Facts, inner: int, data: int) -> Iterator[tuple[Numbers, bool]]:
    """Devices for replicas of `inner` devices in one process each, and whether they are for a cut component alone.

    For every number of devices of each kind: at each place of a replica all replicas have the same kind, as far as
    there are as many; where there are not, who has the better one at one place also has the worse one at the next. Then
    these places in other orders, which a chain goes through.
    """
    node, kinds = facts.devices.node, _kinds(facts)
    seen: set[tuple[tuple[int, ...], ...]] = set()
    index = {kind: at for at, kind in enumerate(kinds)}
    for counts in islice(_counts([len(numbers) for numbers in kinds.values()], inner * data), MOST_SETS):
        taken = {kind: numbers[:count] for (kind, numbers), count in zip(kinds.items(), counts, strict=True)}
        for order in islice(permutations(kinds), MOST_ORDERS):
            numbers = [number for kind in order for number in taken[kind]]
            places = [numbers[at * data : (at + 1) * data] for at in range(inner)]
            alike = tuple(sorted(tuple(index[kind] for kind in _same(tuple(place), node)) for place in places))
            if alike in seen:
                continue
            seen.add(alike)
            for one in (places, _in_turn(places, node)):
                for first, now in enumerate(_arranged(one, node)):
                    yield tuple(place[replica] for replica in range(data) for place in now), first > 0


def _counts(most: list[int], total: int) -> Iterator[tuple[int, ...]]:
    """Every way to take so many in all."""
    if not most:
        if total == 0:
            yield ()
        return
    for count in range(min(most[0], total), -1, -1):
        yield from ((count, *rest) for rest in _counts(most[1:], total - count))


def _in_turn(places: list[list[int]], node: tuple[HardwareFacts, ...]) -> list[list[int]]:
    """Places with every second one that has several kinds turned round."""
    turned, mixed = [], 0
    for place in places:
        mixed += len({node[number % len(node)] for number in place}) > 1
        turned.append(place if mixed % 2 else place[::-1])
    return turned


def _arranged(places: list[list[int]], node: tuple[HardwareFacts, ...]) -> Iterator[tuple[list[int], ...]]:
    """Places in every order that differs in kinds; of many those with another one first."""
    seen = set()
    tries: Iterable[tuple[list[int], ...]] = permutations(places)
    if len(places) > MOST_ORDERED:
        tries = ((places[at], *places[:at], *places[at + 1 :]) for at in range(len(places)))
    for one in tries:
        alike = tuple(node[number % len(node)] for place in one for number in place)
        if alike not in seen:
            seen.add(alike)
            yield one
