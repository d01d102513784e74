"""Which section of the recipe lies at which path, and what keys it has."""

from __future__ import annotations

from functools import cache

from dcompile.core.diagnostics import Path
from dcompile.recipe import model
from dcompile.recipe.model import Section

_ANY = "*"
SECTIONS: dict[tuple[str, ...], type[Section]] = {
    (): model.Recipe,
    ("model",): model.Model,
    ("model", "scheduler"): model.Scheduler,
    ("model", "adapters", _ANY): model.Adapter,
    ("components", _ANY): model.Component,
    ("components", _ANY, "quantize"): model.Quantize,
    ("devices",): model.Devices,
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


def show_pattern(pattern: tuple[str, ...], component: str = "<component>") -> str:
    """A pattern as a person would write it: `parallel.components.<component>`."""
    text = ""
    for part in pattern:
        if part == _ANY:
            text += "[0]" if text.endswith("adapters") else f".{component}"
        else:
            text += f".{part}" if text else part
    return text


@cache
def homes(key: str) -> tuple[tuple[str, ...], ...]:
    """The sections that have a key, those nearest to the top first."""
    found = [pattern for pattern, section in SECTIONS.items() if key in fields(section)]
    return tuple(sorted(found, key=len))
