"""Which section of the recipe lies at which path, and what keys it has."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, get_args

from dcompile.core.diagnostics import Path
from dcompile.recipe import model
from dcompile.recipe.model import Section

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

_ANY = "*"
LISTS = ("adapters", "speeds", "collectives")
"""Sections of which a recipe has a list."""
SECTIONS: dict[tuple[str, ...], type[Section]] = {
    (): model.Recipe,
    ("model",): model.Model,
    ("model", "scheduler"): model.Scheduler,
    ("model", "adapters", _ANY): model.Adapter,
    ("components", _ANY): model.Component,
    ("components", _ANY, "quantize"): model.Quantize,
    ("devices",): model.Devices,
    ("devices", "measured"): model.Measured,
    ("devices", "measured", "speeds", _ANY): model.Speed,
    ("devices", "measured", "collectives", _ANY): model.Collective,
    ("parallel",): model.Parallel,
    ("parallel", "auto"): model.Auto,
    ("parallel", "tensor"): model.Tensor,
    ("parallel", "context"): model.Context,
    ("parallel", "components", _ANY): model.ComponentParallel,
    ("parallel", "components", _ANY, "tensor"): model.Tensor,
    ("parallel", "components", _ANY, "context"): model.Context,
    ("run",): model.Run,
    ("output",): model.Output,
    ("launch",): model.Launch,
}


@cache
def fields(section: type[Section]) -> tuple[str, ...]:
    """The keys of a section as they are written."""
    names = tuple(field.alias or name for name, field in section.model_fields.items())
    return (*names, "extends") if section is model.Recipe else names


def section_at(path: Path) -> type[Section] | None:
    """The section at a path, if there is one."""
    for pattern, section in SECTIONS.items():
        if len(pattern) == len(path) and all(a in (_ANY, b) for a, b in zip(pattern, path, strict=True)):
            return section
    return None


def takes_only_numbers(path: Path) -> bool:
    """Whether what lies at a path, or in the list at it, can be a number and cannot be text."""
    while path and isinstance(path[-1], int):
        path = path[:-1]
    field = field_at(path) if path else None
    kinds = set(kinds_in(field.annotation)) if field is not None else set()
    return bool(kinds & {int, float}) and str not in kinds


def field_at(path: Path) -> FieldInfo | None:
    """The field that a path leads to, by the name that it is written under; None where its section has no such key."""
    section = section_at(path[:-1])
    if section is None:
        return None
    named = {field.alias or name: field for name, field in section.model_fields.items()}
    return named.get(str(path[-1]))


def kinds_in(annotation: Any) -> Iterator[Any]:
    """The plain types and the choices in an annotation."""
    inner = get_args(annotation)
    if not inner:
        yield annotation
    for part in inner:
        yield from kinds_in(part)


def show_pattern(pattern: tuple[str, ...], component: str = "<component>") -> str:
    """A pattern as a person would write it: `parallel.components.<component>`."""
    text = ""
    for part in pattern:
        if part == _ANY:
            text += "[0]" if text.endswith(LISTS) else f".{component}"
        else:
            text += f".{part}" if text else part
    return text


@cache
def homes(key: str) -> tuple[tuple[str, ...], ...]:
    """The sections that have a key, those nearest to the top first."""
    found = [pattern for pattern, section in SECTIONS.items() if key in fields(section)]
    return tuple(sorted(found, key=len))
