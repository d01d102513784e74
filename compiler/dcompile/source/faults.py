"""The faults of the text itself, by code."""

from __future__ import annotations

import re

from dcompile.core.diagnostics import Diagnostic, Path, Severity, Span

FAULTS: dict[str, str] = {
    "DC101": "yaml-syntax",
    "DC102": "file-too-large",
    "DC103": "not-utf8",
    "DC104": "control-character",
    "DC105": "merge-conflict",
    "DC106": "tab",
    "DC107": "nesting-too-deep",
    "DC108": "several-documents",
    "DC109": "empty-file",
    "DC110": "not-a-mapping",
    "DC111": "duplicate-key",
    "DC112": "key-not-text",
    "DC113": "anchor-or-alias",
    "DC114": "merge-key",
    "DC115": "tag",
    "DC116": "directive",
    "DC117": "ambiguous-number",
    "DC118": "number-out-of-range",
    "DC119": "template",
    "DC121": "base-unreadable",
    "DC122": "base-path",
    "DC123": "base-cycle",
    "DC124": "base-chain-too-long",
    "DC125": "devices-file",
    "DC126": "variable-unset",
    "DC127": "variable-not-allowed",
    "DC128": "variable-syntax",
    "DC131": "override-syntax",
    "DC132": "override-path",
}


TOKEN = re.compile(r"(?:hf|api_org)_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{24,}")


def redact(text: str) -> str:
    """The text without tokens. Whatever prints a recipe's text (messages, code frames) goes through this."""
    return TOKEN.sub("(a token)", text)


def say(text: str) -> str:
    """A sentence that is safe to print: no tokens, and nothing that a terminal would obey."""
    text = redact(text)
    return (
        text
        if text.isprintable()
        else "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)
    )


def fault(code: str, message: str, hint: str, span: Span, file: str, path: Path = ()) -> Diagnostic:
    """An error in the text at a known position."""
    return Diagnostic(code, Severity.ERROR, say(message), say(hint), path, span, file)
