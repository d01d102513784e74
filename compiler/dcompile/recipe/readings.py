"""What a recipe with mistakes may mean, so that the later stages can be asked about the rest of it.

A mistake with one right edit is read as if that edit were made. Any other value is taken to be this, and then that:
what a later stage finds under every reading does not hang on the value that is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from dcompile.core.diagnostics import Add, Diagnostic, Move, Path, Remove, Severity
from dcompile.recipe.decode import decode
from dcompile.recipe.examples import EXAMPLES
from dcompile.recipe.model import Recipe
from dcompile.recipe.sections import field_at, kinds_in, section_at
from dcompile.source.document import Document, drop, get, put
from dcompile.source.parse import parse

READINGS = 2
MOST_MISTAKES = 20
_ABSENT = object()
_VALUES: dict[str, tuple[Any, ...]] = {
    "Parallel.device_map": ("balanced", {"transformer": 0}),
    "Devices.gpu": ("h100-sxm-80gb", "rtx-4090"),
    "Run.prompts": (["a red fox"], ["a red fox", "a blue jay", "a grey wolf"]),
    "Run.height": (512, 768),
    "Run.width": (512, 768),
    "Run.frames": (17, 33),
}
"""Values that lead elsewhere, where two of the type might not: another size, another kind of card."""
_SIZES: dict[Path, Any] = {("run", "height"): 768, ("run", "width"): 768, ("run", "frames"): 33}
_OTHERWISE: dict[str, dict[Path, Any]] = {
    "Recipe": _SIZES,
    "Run": _SIZES,
    "Devices": {("devices", "per_node"): 64},
    "Parallel": {("parallel", "tensor"): 2},
}
"""What a key that its section does not have may have been meant for: fields that are not given otherwise."""
_NAMES_OF_THE_MODEL = (("model", "id"), ("model", "path"), ("model", "like"))


def readings(document: Document, found: Iterable[Diagnostic]) -> tuple[Recipe, ...]:
    """The recipes that a document may mean, in spite of the errors found in it.

    None where the model is not known, or where mistakes lie in one another, so that it is not clear what is meant.

    Args:
        found: every diagnostic so far; their paths lead to what is wrong.
    """
    errors = [item for item in found if item.severity is Severity.ERROR]
    if not isinstance(document.value, dict) or len(errors) > MOST_MISTAKES:
        return ()
    try:
        meant = [decode(replace(document, value=value, faulty=frozenset()))[0] for value in _values(document, errors)]
    except LookupError:  # a place that another edit has moved, or that is no mapping
        return ()
    return tuple(recipe for recipe in meant if recipe is not None) if None not in meant else ()


def _values(document: Document, errors: list[Diagnostic]) -> Iterator[dict[str, Any]]:
    """What may stand in the recipe.

    Raises:
        LookupError: where one mistake lies in the place of another.
    """
    value = document.value
    wrong: list[Path] = []
    for item in errors:
        mended = _mended(document, value, item)
        if mended is None:
            wrong.append(item.path)
        else:
            value = mended
    places = {place for path in (*wrong, *document.faulty) if (place := _field(path)) is not None}
    if any(place in ((), ("version",), ("model",)) or place in _NAMES_OF_THE_MODEL for place in places):
        return
    guesses: dict[Path, tuple[Any, ...]] = {}
    for place in sorted(places, key=str):
        guesses |= _guesses(value, place)
    for index in range(READINGS if guesses else 1):
        reading = value
        for place, values in guesses.items():
            guess = values[index % len(values)]
            reading = drop(reading, place) if guess is _ABSENT else put(reading, place, guess)
        yield reading


def _mended(document: Document, value: dict[str, Any], item: Diagnostic) -> Any:
    """The recipe with one mistake mended, where there is one right way; `None` otherwise."""
    path, fix = item.path, item.fix
    if fix is None or not path or document.is_faulty(path):
        return None
    if isinstance(fix, Remove):
        return drop(value, path)
    if isinstance(fix, Move):
        return put(drop(value, path), fix.to, get(value, path)) if get(value, fix.to) is None else None
    right, faults = parse(fix.text if isinstance(fix, Add) else fix, document.file, root=False)
    if faults or right is None:
        return None
    if isinstance(fix, Add):
        return put(value, fix.to, right.value)
    if item.is_key:
        return put(drop(value, path), (*path[:-1], fix), get(value, path))
    return put(value, path, right.value)


def _field(path: Path) -> Path | None:
    """The field that a path lies in: a key of a section, or a key that its section does not have."""
    while path and section_at(path[:-1]) is None:
        path = path[:-1]
    return path


def _guesses(recipe: dict[str, Any], place: Path) -> dict[Path, tuple[Any, ...]]:
    """The values to try in a place, and in others where the place is no field."""
    section = section_at(place[:-1])
    if section is None:
        return {place: (_ABSENT,)}
    field = field_at(place)
    if field is None:
        others = _OTHERWISE.get(section.__name__, {})
        open_fields = {path: (_ABSENT, value) for path, value in others.items() if get(recipe, path) is None}
        return {place: (_ABSENT,), **open_fields}
    full_name = f"{section.__name__}.{place[-1]}"
    kinds = tuple(kinds_in(field.annotation))
    choices = tuple(choice for choice in kinds if isinstance(choice, str))
    if full_name in _VALUES:
        values = _VALUES[full_name]
    elif choices:
        values = choices[:READINGS]
    elif bool in kinds:
        values = (True, False)
    elif int in kinds and str not in kinds:
        values = (2, 3)
    else:
        values = tuple(field.examples or EXAMPLES.get(full_name, ()))
    return {place: values or (_ABSENT,)}
