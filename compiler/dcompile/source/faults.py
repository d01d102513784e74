"""The faults of the text itself, by code."""

from __future__ import annotations

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
    "DC120": "too-many-findings",
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
    "DC350": "suppression-unclear",
    "DC351": "suppression-unused",
    "DC352": "suppression-not-allowed",
}


def fault(
    code: str, message: str, hint: str, span: Span, file: str, path: Path = (), *, fix: str | None = None
) -> Diagnostic:
    """An error in the text at a known position."""
    return Diagnostic(code, Severity.ERROR, message, hint, path, span, file, fix=fix)
