"""Which known name was meant by one that is not known."""

from __future__ import annotations

import re
from collections.abc import Iterable

_LONGEST = 200
"""Names that are longer are no slip of the keyboard; a recipe is untrusted, and comparing takes time."""


def nearest(given: str, known: Iterable[str]) -> str | None:
    """The known name that is most like one, for a hint; None where none is."""
    names = list(known)
    only = meant(given, names)
    if only is not None or len(given) > _LONGEST:
        return only
    import difflib

    close = difflib.get_close_matches(given, names, n=1)
    return close[0] if close else None


def with_parts(given: str, known: Iterable[str]) -> tuple[str, ...]:
    """The known names that have every part of one that leaves parts out: `h100-sxm-80gb` for `H100` and `h100 80gb`."""
    parts = _parts(given) if len(given) <= _LONGEST else set()
    return tuple(name for name in known if parts and parts <= _parts(name))


def of_some_owner(given: str, known: Iterable[str]) -> str | None:
    """The known hub id whose name, without its owner, a name is: `black-forest-labs/FLUX.1-dev` for `flux.1-dev`."""
    bare = _bare(given) if len(given) <= _LONGEST else ""
    alike = [name for name in known if bare and "/" in name and _bare(name.partition("/")[2]) == bare]
    return alike[0] if len(alike) == 1 else None


def _parts(name: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", name.lower()))


def meant(given: str, known: Iterable[str]) -> str | None:
    """The known name that must have been meant; None where it may be none, or one of several.

    Either they differ in case, hyphens and the like alone; or one slip apart (two in a name of 8 letters and more), and
    no other is as near. Digits have to be the same: `rtx-4080` is no slip for `rtx-4090`.
    """
    if not given or len(given) > _LONGEST:
        return None
    names = list(dict.fromkeys(known))
    bare = _bare(given)
    alike = [name for name in names if _bare(name) == bare]
    if alike:
        return alike[0] if len(alike) == 1 else None
    slips = 2 if len(given) >= 8 else 1
    near = [name for name in names if _digits(name) == _digits(given) and abs(len(name) - len(given)) <= slips]
    apart = {name: _distance(given.lower(), name.lower()) for name in near}
    close = [name for name in near if apart[name] <= slips]
    return close[0] if len(close) == 1 else None


def _bare(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _digits(name: str) -> str:
    return "".join(letter for letter in name if letter.isdigit())


def _distance(one: str, other: str) -> int:
    """Letters that are missing, added, changed, or exchanged with their neighbour."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        last, before, row = before, row, [i]
        for j, b in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]
