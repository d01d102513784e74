"""Names and shapes to patterns: a stack of equal blocks is one entry with a `*`, so that facts stay short."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from dcompile.facts.types import TensorGroup


def group_parameters(shapes: Mapping[str, tuple[int, ...]]) -> tuple[TensorGroup, ...]:
    """Groups that together hold exactly the given parameters, in the order of their first members.

    A group is made where a number in the name runs over 0 ... n-1 and every shape is the same. Larger groups are made
    first, and of equal ones the one whose `*` comes first.
    """
    members: dict[tuple[int, str], dict[int, str]] = defaultdict(dict)
    for name in shapes:
        atoms = name.split(".")
        for position, atom in enumerate(atoms):
            if atom.isdecimal():
                pattern = ".".join([*atoms[:position], "*", *atoms[position + 1 :]])
                members[position, pattern][int(atom)] = name
    candidates = [
        (-len(found), position, pattern, list(found.values()))
        for (position, pattern), found in members.items()
        if len(found) > 1
        and sorted(found) == list(range(len(found)))
        and len({shapes[name] for name in found.values()}) == 1
    ]
    group_of: dict[str, TensorGroup] = {}
    for negative, _, pattern, names in sorted(candidates):
        if not any(name in group_of for name in names):
            group = TensorGroup(pattern, tuple(shapes[names[0]]), -negative)
            group_of.update((name, group) for name in names)
    ordered = (group_of.get(name) or TensorGroup(name, tuple(shape)) for name, shape in shapes.items())
    return tuple(dict.fromkeys(ordered))


def stacked_blocks(names: Mapping[str, object] | list[str]) -> tuple[tuple[str, int], ...]:
    """The stacks that parameter names show: dotted prefixes of a run of numbers 0 ... n-1, with their lengths."""
    found: dict[str, set[int]] = defaultdict(set)
    for name in names:
        atoms = name.split(".")
        for position, atom in enumerate(atoms):
            if atom.isdecimal():
                found[".".join(atoms[:position])].add(int(atom))
                break
    return tuple((prefix, len(seen)) for prefix, seen in found.items() if seen == set(range(len(seen))))
