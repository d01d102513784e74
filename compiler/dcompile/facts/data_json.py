"""How generated data files are written: JSON in which everything that fits a line takes one."""

from __future__ import annotations

import json
from typing import Any


def render(value: Any, indent: str = "") -> str:
    """JSON with one level of indentation a space; anything short enough for a line takes one."""
    flat = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, (dict, list)) or not value or len(flat) < 110:
        return flat
    inner = indent + " "
    if isinstance(value, dict):
        lines = [f"{inner}{json.dumps(key, ensure_ascii=False)}: {render(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    return "[\n" + ",\n".join(inner + render(item, inner) for item in value) + f"\n{indent}]"
