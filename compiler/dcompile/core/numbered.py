"""Things that have numbers, as people name many of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

MOST_RUNS = 8
"""Numbers, or stretches of them, that a sentence about rows or pictures names; the rest is counted."""


def _runs(numbers: Sequence[int]) -> list[list[int]]:
    """The numbers in order, those that follow one another together."""
    pairs = enumerate(sorted(numbers))
    return [[number for _, number in run] for _, run in groupby(pairs, lambda pair: pair[1] - pair[0])]


def say_numbers(numbers: Sequence[int]) -> str:
    """`0, 4-7` for (0, 4, 5, 6, 7)."""
    return ", ".join(
        f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(str(number) for number in run) for run in _runs(numbers)
    )


def numbered(noun: str, numbers: Sequence[int]) -> str:
    """`row 2`, `rows 2, 4-7`, or `rows 1, 3, 5, 7, 9, 11, 13, 15 and 42 more`."""
    if len(numbers) == 1:
        return f"{noun} {numbers[0]}"
    named = sorted(number for run in _runs(numbers)[:MOST_RUNS] for number in run)
    rest = len(numbers) - len(named)
    return f"{noun}s {say_numbers(named)}" + (f" and {rest} more" if rest else "")
