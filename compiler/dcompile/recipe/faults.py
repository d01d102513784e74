"""The faults of a recipe's shape, by code."""

from __future__ import annotations

from dcompile.core.diagnostics import Diagnostic, Fix, Path, Severity

FAULTS: dict[str, str] = {
    "DC201": "unknown-key",
    "DC202": "missing-key",
    "DC203": "wrong-type",
    "DC204": "unknown-value",
    "DC205": "out-of-range",
    "DC206": "empty-value",
    "DC207": "moved-key",
    "DC208": "size-without-unit",
    "DC209": "token-in-file",
    "DC210": "model-id-or-path",
}


def fault(
    code: str, message: str, hint: str, path: Path, *, is_key: bool = False, fix: Fix | None = None
) -> Diagnostic:
    """An error in the recipe's shape at a path."""
    return Diagnostic(code, Severity.ERROR, message, hint, path, is_key=is_key, fix=fix)
