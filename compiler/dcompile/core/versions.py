"""Version specifiers as recipes write them under `requires`: `>=0.42`, `>=2.13,<3`."""

from __future__ import annotations

import operator
import re

_COMPARE = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
_CLAUSE = re.compile(r"\s*(>=|<=|==|!=|>|<)\s*(\d+(?:\.\d+)*)\s*\Z")


def release(version: str) -> tuple[int, ...]:
    """The numbers of a version: `2.13.0+cpu` is (2, 13, 0)."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in found.group().split(".")) if found else ()


def is_specifier(text: str) -> bool:
    """Whether every clause of a text is one."""
    return all(_CLAUSE.match(clause) for clause in text.split(","))


def satisfies(version: str, specifier: str) -> bool:
    """Whether a version meets every clause of a specifier. Missing numbers count as 0.

    Raises:
        ValueError: where the specifier is none, with a sentence for the user.
    """
    have = release(version)
    if not is_specifier(specifier):
        raise ValueError(f"`{specifier}` is not a version: write `>=0.42` or `>=0.42,<0.44`")
    for match in filter(None, map(_CLAUSE.match, specifier.split(","))):
        want = release(match.group(2))
        width = max(len(have), len(want))
        if not _COMPARE[match.group(1)](_padded(have, width), _padded(want, width)):
            return False
    return True


def _padded(numbers: tuple[int, ...], width: int) -> tuple[int, ...]:
    return numbers + (0,) * (width - len(numbers))


def same_minor(one: str, other: str) -> bool:
    """Whether two versions agree in major and minor number, which is where the libraries change behaviour."""
    return release(one)[:2] == release(other)[:2]
