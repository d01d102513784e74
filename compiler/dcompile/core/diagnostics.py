"""A user's mistake as a value: code, severity, message, hint, and the path of the field it is about."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

Path = tuple[str | int, ...]


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
class Diagnostic:
    """One finding about a recipe.

    Attributes:
        code: `DC401` and the like; `core/codes.py` has the table.
        message: one sentence: the value found and what it collides with.
        hint: what to write instead.
        path: the field, as keys and indices; the renderer turns it into a position.
        span: the position itself, where the stage that found it already knows it (text faults).
        file: the file the position is in, where that is not the recipe (a base file of `extends`).
    """

    code: str
    severity: Severity
    message: str
    hint: str = ""
    path: Path = ()
    span: Span | None = None
    file: str | None = None
    is_key: bool = False


def dotted(path: Path) -> str:
    """`("run", "prompts", 0)` as `run.prompts[0]`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def has_errors(diagnostics: Iterable[Diagnostic]) -> bool:
    """Whether any diagnostic stops the compiler."""
    return any(diagnostic.severity is Severity.ERROR for diagnostic in diagnostics)
