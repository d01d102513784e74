"""Diagnostics as text for people and as JSON for programs. Here a path becomes a line and a column."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TextIO

from dcompile.cli.frames import frame, lines_of
from dcompile.codes import CODES
from dcompile.core.diagnostics import START, Diagnostic, Severity, Span, dotted
from dcompile.core.safe_text import printable
from dcompile.driver import Compiled
from dcompile.source.document import Document, say_chain

COLOURS = {Severity.ERROR: "31", Severity.WARNING: "33", Severity.ADVICE: "36"}


@dataclass(frozen=True)
class Finding:
    """A diagnostic with its place."""

    diagnostic: Diagnostic
    file: str
    span: Span


def locate(diagnostics: Sequence[Diagnostic], document: Document | None, file: str, strict: bool) -> list[Finding]:
    """Give every diagnostic its place, and make warnings errors where `--strict` asks for it."""
    found = []
    for diagnostic in diagnostics:
        if strict and diagnostic.severity is Severity.WARNING:
            diagnostic = replace(diagnostic, severity=Severity.ERROR)
        if diagnostic.span is not None:
            place = (diagnostic.file or file, diagnostic.span)
        elif document is not None:
            place = document.position(diagnostic.path, key=diagnostic.is_key)
            if chain := say_chain(document.chains.get(place[0], ())):
                diagnostic = replace(diagnostic, message=diagnostic.message + chain)
        else:
            place = (file, START)
        found.append(Finding(diagnostic, *place))
    return found


def in_order(findings: Sequence[Finding]) -> list[Finding]:
    """Findings by file, line, column and code, each once."""
    unique = {(f.file, f.span.line, f.span.column, f.diagnostic.code, f.diagnostic.message): f for f in findings}
    return [unique[key] for key in sorted(unique)]


def as_json(findings: Sequence[Finding]) -> str:
    """One array of objects with the keys that other programs read."""
    return json.dumps(as_objects(findings), indent=2, ensure_ascii=False)


def as_objects(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """The same as plain data."""
    return [_object(finding) for finding in in_order(findings)]


def _object(finding: Finding) -> dict[str, Any]:
    diagnostic, span = finding.diagnostic, finding.span
    return {
        "file": finding.file,
        "code": diagnostic.code,
        "name": CODES[diagnostic.code],
        "severity": diagnostic.severity.value,
        "message": diagnostic.message,
        "hint": diagnostic.hint,
        "path": dotted(diagnostic.path),
        "line": span.line,
        "column": span.column,
        "end_line": span.end_line,
        "end_column": span.end_column,
        "source": "dcompile",
    }


def wants_colour(stream: TextIO) -> bool:
    """Colour only on a terminal, and never where NO_COLOR is set."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def as_text(findings: Sequence[Finding], colour: bool) -> str:
    """One block a finding: place, code, message, the line with a caret, and the way out."""
    lines: list[str] = []
    texts: dict[str, list[str]] = {}
    for finding in in_order(findings):
        diagnostic, span = finding.diagnostic, finding.span
        severity = diagnostic.severity.value
        label = f"\x1b[{COLOURS[diagnostic.severity]}m{severity}\x1b[0m" if colour else severity
        place = f"{printable(finding.file)}:{span.line}:{span.column}"
        lines.append(f"{place}: {label} {diagnostic.code} {diagnostic.message}")
        if finding.file not in texts:
            texts[finding.file] = lines_of(finding.file)
        lines += frame(texts[finding.file], span)
        if diagnostic.hint:
            lines.append(f"       = help: {diagnostic.hint}")
    return "\n".join(lines)


def report(compiled: Compiled) -> None:
    """Print a recipe's diagnostics to stderr: for commands whose result is something else."""
    findings = locate(compiled.diagnostics, compiled.document, str(compiled.file), strict=False)
    if findings:
        print(as_text(findings, wants_colour(sys.stderr)), file=sys.stderr)
