"""How found and expected values are put into words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from dcompile.core.safe_text import redact

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
_WORD = re.compile(r"[A-Za-z][\w./-]*")
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
    if path_text.startswith("parallel.device_map.") and isinstance(value, str):
        number = _device_number(value)
        return f"write {number}" if number else "write the number of a device, such as 0, or a list: [0, 1]"
    if value == "auto" and path_text.startswith("parallel."):
        return "write `parallel: auto`, or `parallel: {auto: {fixed: ...}}` beside what is settled"
    right = right_text(value, text, wanted, path_text)
    if "bool_type" in wanted and (isinstance(value, str) or value in (0, 1)):
        return f"write `{name}: {right}`" if right else "write true or false" if isinstance(value, str) else ""
    if "int_type" in wanted and isinstance(value, float) and right:
        return f"write {right}"
    if wanted & {"int_type", "float_type"} and isinstance(value, str) and right:
        return f"write {right}, without quotes"
    if "string_type" in wanted and isinstance(value, (bool, int, float)):
        return f'write "{text if text is not None else value}" in quotes'
    if "string_type" in wanted and isinstance(value, dict) and value and all(one is None for one in value.values()):
        bare = ", ".join(value)  # `{seed}` without quotes is YAML's short mapping
        return f'put it in quotes: `{name}: "{{{bare}}}"`'
    if path_text == "devices.gpus" and not isinstance(value, str):
        return "write a list of names: [rtx-4090, l4]; `dcompile hardware` lists them, and `per_node` counts them"
    if "tuple_type" in wanted and isinstance(value, (str, int, float)):
        return f"write a list: [{show(value, text).strip('`')}]"
    return ""


def _device_number(value: str) -> str | None:
    """`0` of `cuda:0`."""
    number = re.fullmatch(r"(?:cuda:|xpu:)?(\d{1,4})", value.strip())
    return str(int(number[1])) if number else None


def right_text(value: Any, text: str | None, wanted: set[str], path_text: str) -> str | None:
    """What has to stand in the place of a value of the wrong type, where only one thing can be meant; as YAML."""
    if path_text.startswith("parallel.device_map.") and isinstance(value, str):
        return _device_number(value)
    if "bool_type" in wanted and not isinstance(value, bool):
        low = str(value).strip().lower()
        return "true" if low in _TRUE else "false" if low in _FALSE else None
    if "int_type" in wanted and isinstance(value, float) and value.is_integer():
        return str(int(value))
    if wanted & {"int_type", "float_type"} and isinstance(value, str):
        bare = value.strip().replace(",", "").replace("_", "")
        return str(int(bare)) if re.fullmatch(r"-?\d{1,18}", bare) else None
    if path_text.startswith("requires."):  # a number is no version specifier, with quotes or without
        return None
    if wanted == {"string_type"} and isinstance(value, (bool, int, float)):
        return json.dumps(text if text is not None else str(value))
    if wanted == {"tuple_type"} and isinstance(value, str) and _WORD.fullmatch(value):
        return f"[{value}]"
    return None
