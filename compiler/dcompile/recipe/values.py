"""How found and expected values are put into words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from dcompile.source.faults import redact

_TYPES = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "model_type": "a mapping",
    "dict_type": "a mapping",
    "tuple_type": "a list",
    "list_type": "a list",
}
_LIMITS = {
    "greater_than_equal": ("ge", "at least"),
    "less_than_equal": ("le", "at most"),
    "greater_than": ("gt", "more than"),
    "less_than": ("lt", "less than"),
}
_TRUE = ("yes", "on", "y", "true", "1")
_FALSE = ("no", "off", "n", "false", "0")


def show(value: Any, text: str | None = None) -> str:
    """A found value, short and without secrets."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "nothing" if not text else f"`{text}`"
    if text is None:
        text = {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
    text = redact(text).replace("\n", " ")
    text = text if len(text) <= 60 else text[:57] + "..."
    return f"`{text}`" if text else "empty text"


def expected(kind: str, context: dict[str, Any]) -> str:
    """What one kind of validation error wanted."""
    if kind in _LIMITS:
        name, words = _LIMITS[kind]
        return f"{words} {context[name]}"
    if kind == "literal_error":
        return str(context.get("expected", "")).replace("'", "`")
    return _TYPES.get(kind, "something else")


def either(words: Iterable[str]) -> str:
    """`a, b or c` without repetitions; a whole number is a number."""
    listed = list(dict.fromkeys(words))
    if "a number" in listed and "a whole number" in listed:
        listed.remove("a whole number")
    return " or ".join([", ".join(listed[:-1]), listed[-1]] if len(listed) > 1 else listed)


def hint_for(value: Any, text: str | None, wanted: set[str], path_text: str) -> str:
    """What to write instead of a value of the wrong type."""
    name = path_text.rsplit(".", 1)[-1]
    if path_text == "parallel.auto":
        return "write `parallel: auto`"
    if "bool_type" in wanted and isinstance(value, str):
        low = value.strip().lower()
        return (
            f"write `{name}: {'true' if low in _TRUE else 'false'}`" if low in _TRUE + _FALSE else "write true or false"
        )
    if "bool_type" in wanted and value in (0, 1) and not isinstance(value, bool):
        return f"write `{name}: {'true' if value else 'false'}`"
    if "int_type" in wanted and isinstance(value, float) and value.is_integer():
        return f"write {int(value)}"
    if wanted & {"int_type", "float_type"} and isinstance(value, str):
        bare = value.strip().replace(",", "").replace("_", "")
        if re.fullmatch(r"-?\d{1,18}", bare):
            return f"write {int(bare)}, without quotes"
    if "string_type" in wanted and isinstance(value, (bool, int, float)):
        return f'write "{text if text is not None else value}" in quotes'
    if "tuple_type" in wanted and isinstance(value, (str, int, float)):
        return f"write a list: [{show(value, text).strip('`')}]"
    return ""
