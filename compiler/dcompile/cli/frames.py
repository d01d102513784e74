"""The line that a finding is about, with a caret under the place."""

from __future__ import annotations

import unicodedata
from pathlib import Path

from dcompile.core.diagnostics import Span
from dcompile.core.safe_text import TOKEN

WIDTH = 160
_BEFORE = 60
_AROUND = 400
"""Characters beyond the window in which a token is looked for that reaches into it."""
_MAX_BYTES = 1 << 20


def lines_of(file: str) -> list[str]:
    """The lines of a file as the parser counts them; none where it cannot be read (`--set`, a file that is gone)."""
    try:
        with Path(file).open("rb") as stream:
            text = stream.read(_MAX_BYTES).decode("utf-8-sig", "replace")
            return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    except (OSError, ValueError):
        return []


def frame(lines: list[str], span: Span) -> list[str]:
    """The line of a span and its underline, both at most `WIDTH` columns of the text; empty where there is no line."""
    if not 0 < span.line <= len(lines) or not lines[span.line - 1].strip():
        return []
    line = lines[span.line - 1]
    column = min(span.column - 1, len(line))
    start = 0 if column < WIDTH - _BEFORE else column - _BEFORE
    shown = _window(line, start)
    end = span.end_column - 1 if span.end_line == span.line else len(line.rstrip())
    before = shown[: column - start]
    marked = shown[column - start : max(end, column + 1) - start]
    dots, pad = ("...", "   ") if start else ("", "")
    return [
        f"  {span.line:>4} | {dots}{shown}",
        f"       | {pad}{' ' * _columns(before)}{'^' * max(1, _columns(marked))}",
    ]


def _window(line: str, start: int) -> str:
    """A stretch of a line: tokens starred out, one character for what a terminal would obey."""
    low = max(0, start - _AROUND)
    piece = TOKEN.sub(lambda match: "*" * len(match[0]), line[low : start + WIDTH + _AROUND])
    piece = piece[start - low : start - low + WIDTH]
    return piece if piece.isprintable() else "".join(c if c.isprintable() else " " if c == "\t" else "?" for c in piece)


def _columns(text: str) -> int:
    """How wide a text is on a terminal: Chinese characters and emoji take two columns."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
