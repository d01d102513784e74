"""A plain value as YAML on one line, as a person would write it."""

from __future__ import annotations

import json
import re
from typing import Any

_PLAIN = re.compile(r"[A-Za-z][\w./-]*\Z")
_WORDS = {"null", "true", "false"}


def flow(value: Any) -> str:
    """`{context: {ulysses: 4}, note: "a: b"}`."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{flow(str(key))}: {flow(part)}" for key, part in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(flow(part) for part in value) + "]"
    if isinstance(value, str) and _PLAIN.match(value) and value.lower() not in _WORDS:
        return value
    return json.dumps(value, ensure_ascii=False)
