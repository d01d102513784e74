"""Which files the hook leaves alone: YAML that is no recipe, whether or not a recipe might be written so.

A mapping with both `version` and `model`, or with `extends`, is a recipe. One with three of a recipe's sections is one
too, as `modle:` has to be found. Where the text is refused (several documents, a template), its lines' starts tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from dcompile.core.meant import meant
from dcompile.driver import Compiled
from dcompile.recipe.model import Recipe
from dcompile.recipe.sections import fields

_ENOUGH = 3
_STARTS = re.compile(rb"^[\"']?([A-Za-z_]+)", re.MULTILINE)
_OTHER_BYTES = re.compile(rb"[\x00\x80-\xff]")
"""Byte-order marks, and the zeros of UTF-16: a recipe that was saved so is one."""

_EMPTY = "DC109"


def is_foreign(compiled: Compiled, text: bytes) -> bool:
    """Whether a file is no recipe.

    Args:
        compiled: what came of it.
        text: its bytes.
    """
    if compiled.document is not None:
        value = compiled.document.value
        return isinstance(value, dict) and not _are_of_a_recipe(value)
    if any(found.code == _EMPTY for found in compiled.diagnostics) or text.lstrip().startswith(b"{"):
        return False
    starts = _STARTS.findall(_OTHER_BYTES.sub(b"", text).replace(b"\r", b"\n"))
    return not _are_of_a_recipe({start.decode() for start in starts})


def _are_of_a_recipe(keys: Iterable[str]) -> bool:
    given, names = set(keys), fields(Recipe)
    if "extends" in given or {"version", "model"} <= given:
        return True
    return len({name for key in given if (name := key if key in names else meant(key, names))}) >= _ENOUGH
