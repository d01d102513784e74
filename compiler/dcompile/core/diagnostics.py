"""A user's mistake as a value: code, severity, message, hint, and the path of the field it is about."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from itertools import islice

from dcompile.core.safe_text import LONGEST_IN_HINT, say

Path = tuple[str | int, ...]
MAX_FINDINGS = 100


class Severity(str, Enum):
    """How bad a diagnostic is. Errors stop the compiler; `--strict` makes warnings errors; advice never stops."""

    ERROR = "error"
    WARNING = "warning"
    ADVICE = "advice"


@dataclass(frozen=True)
class Span:
    """A stretch of text. Lines and columns count from 1; the end is exclusive in columns."""

    line: int
    column: int
    end_line: int
    end_column: int


START = Span(1, 1, 1, 1)


@dataclass(frozen=True)
class Remove:
    """An edit: the entry at the diagnostic's path goes, key and value."""


@dataclass(frozen=True)
class Move:
    """An edit: the entry at the diagnostic's path belongs elsewhere. `to` is its new path, the key included."""

    to: Path


@dataclass(frozen=True)
class Add:
    """An edit: an entry is missing.

    Attributes:
        to: its path.
        text: its value, as YAML.
        is_first: whether it goes before the others of its mapping.
    """

    to: Path
    text: str
    is_first: bool = False


Fix = str | Remove | Move | Add
"""What `check --fix` does: another text in the place of the value (or of the key), or a change of entries."""


@dataclass(frozen=True)
class Diagnostic:
    """One finding about a recipe.

    Attributes:
        code: `DC401` and the like; `codes.py` has the table.
        message: one sentence: the value found and what it collides with. It and the hint are made safe to print.
        hint: what to write instead.
        path: the field, as keys and indices; the renderer turns it into a position.
        span: the position itself, where the stage that found it already knows it (text faults).
        file: the file the position is in, where that is not the recipe (a base file of `extends`).
        is_key: whether the key is meant, not the value: the renderer then points at the key.
        fix: the edit, where there is exactly one right one; `check --fix` makes it.
    """

    code: str
    severity: Severity
    message: str
    hint: str = ""
    path: Path = ()
    span: Span | None = None
    file: str | None = None
    is_key: bool = False
    fix: Fix | None = None

    @property
    def new_path(self) -> Path | None:
        """Where the entry lies after the edit, where that gives it another key or place."""
        if isinstance(self.fix, Move):
            return self.fix.to
        return (*self.path[:-1], self.fix) if self.is_key and isinstance(self.fix, str) else None

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", say(self.message))
        object.__setattr__(self, "hint", say(self.hint, LONGEST_IN_HINT))


def dotted(path: Path) -> str:
    """`("run", "prompts", 0)` as `run.prompts[0]`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def bounded(found: Iterable[Diagnostic], most: int = MAX_FINDINGS) -> tuple[Diagnostic, ...]:
    """At most so many diagnostics, and DC120 in place of the rest.

    The rest is not computed; DC120 is an error, because one of the rest may be.
    """
    findings = iter(found)
    kept = tuple(islice(findings, most))
    if len(kept) < most or (cut := next(findings, None)) is None:
        return kept
    message = f"there are more than {most} findings; the others are not shown"
    return (
        *kept,
        replace(cut, code="DC120", severity=Severity.ERROR, message=message, hint="mend these and check again"),
    )


def has_errors(diagnostics: Iterable[Diagnostic]) -> bool:
    """Whether any diagnostic stops the compiler."""
    return any(diagnostic.severity is Severity.ERROR for diagnostic in diagnostics)
