"""What a plain scalar means: YAML 1.2 core, and stricter where readers differ."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

_CONSTANTS: dict[str, bool | None] = {"": None, "~": None}
_CONSTANTS |= dict.fromkeys(("null", "Null", "NULL"))
_CONSTANTS |= dict.fromkeys(("true", "True", "TRUE"), True)
_CONSTANTS |= dict.fromkeys(("false", "False", "FALSE"), False)
_INT = re.compile(r"[-+]?[0-9]+\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_BASED = re.compile(r"([-+]?)0(?:([xX])([0-9a-fA-F_]+)|([oO])([0-7_]+)|([bB])([01_]+))\Z")
_GROUPED = re.compile(r"[-+]?[0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)?\Z")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)\Z|\.(?:nan|NaN|NAN)\Z")
_ZEROS = re.compile(r"\A([-+]?)0+(?=[0-9])")
_LIMIT = 2**63
_SHOWN = 40


class Fault(NamedTuple):
    """Why a scalar was refused."""

    code: str
    message: str
    hint: str
    number: str | None = None  # the plain decimal that every reader takes it for, where they agree


def clip(text: str) -> str:
    """At most a line's worth of a text."""
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def resolve(text: str) -> tuple[str | int | float | bool | None, Fault | None]:
    """The value of a plain scalar; the fault, where it is a number that readers take differently."""
    if text in _CONSTANTS:
        return _CONSTANTS[text], None
    if text[0] not in "+-.0123456789":
        return text, None
    shown = clip(text)
    if _NOT_FINITE.match(text):
        return None, Fault("DC118", f"`{shown}` is not a finite number", f'write a number, or "{shown}" for text')
    if (based := _BASED.match(text)) is not None:
        return None, _based(shown, based)
    if "_" in text and _GROUPED.match(text):
        plain = _ZEROS.sub(r"\1", text.replace("_", ""))
        return None, _ambiguous(shown, "has `_` in a number", plain, agreed=text.lstrip("+-")[0] != "0")
    if not _FLOAT.match(text):
        return text, None
    if (zeros := _ZEROS.match(text)) is not None:
        plain = zeros[1] + text[zeros.end() :]
        digits = plain.lstrip("+-")
        # A reader of octal takes `010` for 8; `07` is 7 for all, and `08` is no octal number.
        agreed = not digits.isdecimal() or "8" in digits or "9" in digits or len(digits) == 1
        return None, _ambiguous(shown, "starts with a zero, which some readers take for octal", plain, agreed=agreed)
    if not _INT.match(text):
        number = float(text)
        if math.isfinite(number):
            return number, None
        return None, Fault(
            "DC118", f"`{shown}` is too large for a number", f'write a smaller one, or "{shown}" for text'
        )
    if len(text) <= 20 and -_LIMIT <= int(text) < _LIMIT:
        return int(text), None
    return None, Fault(
        "DC118",
        f"`{shown}` is beyond the whole numbers that a recipe may hold (-2^63 to 2^63 - 1)",
        f'write a smaller one, or "{shown}" for text',
    )


def _based(shown: str, match: re.Match[str]) -> Fault:
    sign, *pairs = match.groups()
    letter, digits = next((a, b) for a, b in zip(pairs[::2], pairs[1::2], strict=True) if a)
    digits = digits.replace("_", "").lstrip("0") or "0"
    base = {"x": 16, "o": 8, "b": 2}[letter.lower()]
    plain = f"{sign.replace('+', '')}{int(digits, base)}" if len(digits) <= 64 else ""
    name = {16: "a hexadecimal number", 8: "an octal number", 2: "a binary number"}[base]
    return _ambiguous(shown, f"is {name}, which not every reader takes for one", plain)


def _ambiguous(shown: str, why: str, plain: str, *, agreed: bool = True) -> Fault:
    plain = clip(plain)
    number = plain if agreed and "..." not in plain else None
    return Fault(
        "DC117", f"`{shown}` {why}", f'write {plain or "the number in decimal"}, or "{shown}" for text', number or None
    )
