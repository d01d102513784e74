"""Byte sizes with a unit, as people write them in recipes.

`24GiB` is 24 * 2**30 and `24GB` is 24 * 10**9, in small letters too: sizes are bytes, never bits. A bare number and
`24G` have two readings and are refused.
"""

from __future__ import annotations

import re

_UNITS: dict[str, int] = {"B": 1, **{f"{p}B": int(1000 ** (i + 1)) for i, p in enumerate("KMGT")}}
_UNITS |= {f"{p}IB": int(1024 ** (i + 1)) for i, p in enumerate("KMGT")}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*\Z")

_BANDWIDTH = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ?([kKMGT]i?)?(B|bit)/s\Z")
_EITHER = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ?([kmgt])(i?)b(?:/s|ps|it/s)\Z", re.IGNORECASE)

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
    letter = unit.upper()
    if letter in _UNITS:
        return round(float(number) * _UNITS[letter])
    if letter and letter in "KMGT":
        raise ValueError(
            f"`{text}` has two readings: write {number}{letter}iB ({round(float(number) * _UNITS[f'{letter}IB'])} "
            f"bytes) or {number}{letter}B ({round(float(number) * _UNITS[f'{letter}B'])} bytes)"
        )
    if not unit:
        raise ValueError(f"`{text}` has no unit: write {number}GiB, {number}GB or {number}B")
    raise ValueError(f"`{unit}` is not a unit of size: use B, KB, MB, GB, TB, KiB, MiB, GiB or TiB")


def parse_bandwidth(text: str) -> float:
    """The bytes a second in a bandwidth such as `64GB/s` or `400Gbit/s`.

    Raises:
        ValueError: with a sentence for the user. `400Gb/s` has two readings: cables are sold in bits.
    """
    match = _BANDWIDTH.match(text)
    if match is not None:
        number, prefix, unit = match.groups()
        value = float(number) * (_UNITS[f"{prefix.upper()}B"] if prefix else 1) / (1 if unit == "B" else 8)
        if value <= 0:
            raise ValueError(f"`{text}` is no bandwidth: it must be more than 0")
        return value
    either = _EITHER.match(text)
    if either is not None:
        unit = f"{either[2].upper()}{either[3].lower()}"
        raise ValueError(f"`{text}` has two readings: write {either[1]}{unit}bit/s or {either[1]}{unit}B/s")
    if _SIZE.match(text):
        number = text.strip()
        raise ValueError(
            f"`{text}` is no bandwidth: write {number}/s" if number[-1:] == "B" else f"`{text}` has no unit"
        )
    raise ValueError(f"`{text}` is no bandwidth: write a number and a unit, such as 64GB/s or 400Gbit/s")


def format_bytes(count: int) -> str:
    """A size for people, in binary units: `22.17 GiB`."""
    value, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{count} B" if unit == "B" else f"{value:.2f} {unit}"


def format_seconds(seconds: float) -> str:
    """A duration for people, to two or three digits: `320 us`, `38 ms`, `1.63 s`, `12.4 min`, `3.1 h`."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    for unit, size in (("s", 1), ("min", 60), ("h", 3600)):
        value = seconds / size
        if value < 100 or unit == "h":
            break
    return f"{value:.2f} {unit}" if value < 10 else f"{value:.1f} {unit}"


def format_rate(value: float, unit: str) -> str:
    """A speed for people, in decimal units: `145 TFLOP/s`, `3.35 TB/s`."""
    prefix = ""
    for larger in ("K", "M", "G", "T", "P"):
        if value < 1000:
            break
        value, prefix = value / 1000, larger
    return f"{value:.3g} {prefix}{unit}"
