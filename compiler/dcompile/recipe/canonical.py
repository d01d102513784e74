"""The recipe in full, in one order, and its digest."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from pydantic import BaseModel

from dcompile.recipe.model import Recipe


def canonical(recipe: Recipe) -> dict[str, Any]:
    """The recipe with its defaults, as JSON holds it: keys in the schema's order, a user's own names sorted."""
    found = _plain(recipe)
    assert isinstance(found, dict)
    return found


def recipe_digest(recipe: Recipe) -> str:
    """A digest of what a recipe says, whatever its text: `sha256:...`."""
    text = json.dumps(canonical(recipe), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        named = {field.alias or name: getattr(value, name) for name, field in type(value).model_fields.items()}
        extra = value.model_extra or {}
        return {name: _plain(inner) for name, inner in [*named.items(), *sorted(extra.items())]}
    if isinstance(value, dict):
        return {str(key): _plain(value[key]) for key in sorted(value)}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if isinstance(value, float):
        rounded = float(f"{value:.6g}")
        return int(rounded) if rounded.is_integer() and abs(rounded) < 2**53 else rounded
    return value
