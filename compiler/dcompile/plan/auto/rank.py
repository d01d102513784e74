"""The order of plans: by time, then those that do not offload, then by fewer devices, then by simplicity.

Plans within `ALIKE` of the fastest take as long: the estimate does not tell them apart. A plan that the rules warn of
comes after all that they do not, and of each of the two kinds one that offloads after all that do not where nobody can
say what that takes, or whether the host has room for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from dcompile.plan.auto.judge import Judged

ALIKE = 0.01
"""Share of the time below which a difference is none: the estimate is off by more (`compiler/docs/estimate.md`)."""


def rank(judged: Sequence[Judged]) -> list[Judged]:
    """The plans that are legal and fit, best first."""
    ordered: list[Judged] = []
    fitting = [one for one in judged if one.checked is not None]
    for kind in ((False, False), (False, True), (True, False), (True, True)):
        alike = (one for one in fitting if standing(one) == kind)
        pool = sorted(alike, key=_by_time)
        while pool:
            best = min(_as_fast(pool), key=_by_ease)
            ordered.append(best)
            pool.remove(best)
    return ordered


def _as_fast(pool: Sequence[Judged]) -> Iterator[Judged]:
    """Of plans by their time those that take as long as the first."""
    limit = pool[0].time * (1 + ALIKE)
    return takewhile(lambda one: one.time <= limit, pool)


def standing(one: Judged) -> tuple[bool, bool]:
    """What comes before time: whether the rules warn of a plan, and whether it is a last resort."""
    return one.warns, one.is_last_resort


def _by_time(one: Judged) -> tuple[float, bool, int, int, str]:
    return one.time, *_by_ease(one)


def _by_ease(one: Judged) -> tuple[bool, int, int, str]:
    return one.candidate.offloads > 0, one.candidate.devices, one.candidate.simplicity, one.candidate.text


def runners_up(ranked: Sequence[Judged], count: int = 2) -> list[Judged]:
    """The best plans of other strategies than the winner's and than each other's; then the next of any."""
    found: list[Judged] = []
    seen = {ranked[0].candidate.strategy} if ranked else set()
    for one in ranked[1:]:
        if one.candidate.strategy not in seen and len(found) < count:
            seen.add(one.candidate.strategy)
            found.append(one)
    taken = {id(one) for one in found}
    return (found + [one for one in ranked[1:] if id(one) not in taken])[:count]
