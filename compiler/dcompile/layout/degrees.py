"""Degrees that heads, weights and streams allow: what hints propose instead of one that does not fit."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from math import gcd

from dcompile.facts.types import ComponentFacts
from dcompile.layout.shard import KEPT, parameter_shards
from dcompile.layout.splits import Split
from dcompile.layout.tokens import divisors

UP_TO = 16
"""Hints name degrees up to this one."""


def common_degrees(lengths: Iterable[int], heads: int | None, split: Split) -> tuple[int, ...]:
    """Degrees above 1 that divide every stream, and the heads too where `ring` takes no part."""
    shared = gcd(*lengths)
    if split.ring == 1 and heads:
        shared = gcd(shared, heads)
    return tuple(degree for degree in divisors(shared, UP_TO) if degree > 1)


def unified(heads: int, ranks: int) -> tuple[int, int] | None:
    """Ulysses and ring degrees above 1 for as many ranks, Ulysses as large as the heads allow; None where none fits."""
    ulysses = max((d for d in divisors(gcd(heads, ranks)) if 1 < d < ranks), default=None)
    return None if ulysses is None else (ulysses, ranks // ulysses)


@lru_cache(maxsize=KEPT)
def key_value_heads(component: ComponentFacts) -> int | None:
    """Heads of keys and values where they are fewer than those of queries; None where they are not, or nobody knows.

    A projection to keys has as many rows a head as one to queries, so shapes tell.
    """
    split = parameter_shards(component, 2)
    rows = {group.name.split(".")[-2]: group.shape[0] for group in component.parameters if group.name in split}
    query, key = rows.get("q_proj"), rows.get("k_proj")
    if not component.heads or not query or not key or component.heads * key % query:
        return None
    found = component.heads * key // query
    return found if found < component.heads else None


def tensor_degrees(component: ComponentFacts, up_to: int = 64) -> tuple[int, ...]:
    """Degrees that divide the heads and every part of every weight that the class's tensor plan splits."""
    parts = [part for _, parts in parameter_shards(component, 2).values() for part in parts]
    heads = [count for count in (component.heads, key_value_heads(component)) if count]
    return divisors(gcd(*heads, *parts), up_to)
