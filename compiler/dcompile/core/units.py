"""Byte sizes with a unit, as people write them in recipes.

`24GiB` is 24 * 2**30 and `24GB` is 24 * 10**9. A bare number and `24G` have two readings and are refused.
"""

from __future__ import annotations

import re

_UNITS: dict[str, int] = {"B": 1, **{f"{p}B": int(1000 ** (i + 1)) for i, p in enumerate("KMGT")}}
_UNITS |= {f"{p}iB": int(1024 ** (i + 1)) for i, p in enumerate("KMGT")}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*\Z")

GIB = 1024**3


def parse_bytes(text: str) -> int:
    """The bytes in a size such as `24GiB`.

    Raises:
        ValueError: with a sentence for the user, naming both readings of an ambiguous size.
    """
    match = _SIZE.match(text)
    if match is None:
        raise ValueError(f"`{text}` is not a size: write a number and a unit, such as 24GiB or 24GB")
    number, unit = match.groups()
    if unit in _UNITS:
        return round(float(number) * _UNITS[unit])
    letter = unit.upper()[:1]
    if letter and letter in "KMGT" and unit.upper() in (letter, f"{letter}B", f"{letter}IB"):
        raise ValueError(
            f"`{text}` has two readings: write {number}{letter}iB ({round(float(number) * _UNITS[f'{letter}iB'])} "
            f"bytes) or {number}{letter}B ({round(float(number) * _UNITS[f'{letter}B'])} bytes)"
        )
    if not unit:
        raise ValueError(f"`{text}` has no unit: write {number}GiB, {number}GB or {number}B")
    raise ValueError(f"`{unit}` is not a unit of size: use B, KB, MB, GB, TB, KiB, MiB, GiB or TiB")


def format_bytes(count: int) -> str:
    """A size for people, in binary units: `22.17 GiB`."""
    value, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{count} B" if unit == "B" else f"{value:.2f} {unit}"
