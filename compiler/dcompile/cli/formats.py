"""Findings for other programs: annotations of GitHub Actions, and SARIF 2.1.0."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dcompile import __version__
from dcompile.cli.render import Finding, in_order
from dcompile.cli.rule_pages import text_of
from dcompile.codes import CODES
from dcompile.core.diagnostics import Severity
from dcompile.source.document import OVERRIDE

SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_GITHUB = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.ADVICE: "notice"}
_SARIF = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.ADVICE: "note"}


def as_github(findings: Sequence[Finding]) -> str:
    """One workflow command a finding, which GitHub shows beside the line."""
    lines = []
    for finding in in_order(findings):
        diagnostic, span = finding.diagnostic, finding.span
        properties = {
            "file": _relative(finding.file),
            "line": span.line,
            "endLine": span.end_line,
            "col": span.column,
            "endColumn": span.end_column,
            "title": f"{diagnostic.code} {CODES[diagnostic.code]}",
        }
        named = ",".join(f"{name}={_escaped(str(value), ':,')}" for name, value in properties.items())
        lines.append(f"::{_GITHUB[diagnostic.severity]} {named}::{_escaped(_sentence(finding))}")
    return "\n".join(lines)


def _escaped(text: str, more: str = "") -> str:
    """A text as a workflow command takes it: its own signs as `%25` and the like."""
    for sign in f"%\r\n{more}":
        text = text.replace(sign, f"%{ord(sign):02X}")
    return text


def _sentence(finding: Finding) -> str:
    hint = finding.diagnostic.hint
    return f"{finding.diagnostic.message} (help: {hint})" if hint else finding.diagnostic.message


def _relative(file: str) -> str:
    """A file as seen from the working directory, where it lies below it: what annotations go by."""
    path = os.path.relpath(file) if os.path.isabs(file) else os.path.normpath(file)
    return file if path.startswith("..") else Path(path).as_posix()


def as_sarif(findings: Sequence[Finding]) -> str:
    """One run of SARIF 2.1.0; columns count code points from 1, as ours do."""
    ordered = in_order(findings)
    codes = sorted({finding.diagnostic.code for finding in ordered})
    driver = {"name": "dcompile", "version": __version__, "rules": [_rule(code) for code in codes]}
    results = [_result(finding, codes.index(finding.diagnostic.code)) for finding in ordered]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False)


def _rule(code: str) -> dict[str, Any]:
    text = text_of(code)
    return {
        "id": code,
        "name": "".join(part.capitalize() for part in CODES[code].split("-")),
        "shortDescription": {"text": " ".join(text.split("\n\n")[0].split())},
        "fullDescription": {"text": text},
    }


def _result(finding: Finding, index: int) -> dict[str, Any]:
    diagnostic, span = finding.diagnostic, finding.span
    result: dict[str, Any] = {
        "ruleId": diagnostic.code,
        "ruleIndex": index,
        "level": _SARIF[diagnostic.severity],
        "message": {"text": _sentence(finding)},
    }
    if finding.file != OVERRIDE:
        region = {"startLine": span.line, "startColumn": span.column}
        region |= {"endLine": span.end_line, "endColumn": span.end_column}
        result["locations"] = [
            {"physicalLocation": {"artifactLocation": {"uri": _uri(finding.file)}, "region": region}}
        ]
    return result


def _uri(file: str) -> str:
    path = _relative(file)
    return Path(path).as_uri() if os.path.isabs(path) else quote(path)
