"""The public reports as tests: each writes a recipe and asks for the verdict.

A file is `test_<letter>_<topic>.py`, a test `test_case_<NNN>_<what>`; the docstring names the report and what is right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
from dcompile.core.diagnostics import dotted
from dcompile.driver import Compiled

Compile = Callable[..., Compiled]
Verdict = Callable[..., "list[Finding]"]


class Finding(NamedTuple):
    """One diagnostic, as plain text."""

    code: str
    severity: str
    path: str
    message: str
    hint: str


@pytest.fixture
def verdict(compiled: Compile) -> Verdict:
    """The findings about a recipe's text, in the compiler's order; an empty list is a yes without a word."""

    def judge(text: str, files: dict[str, str] | None = None) -> list[Finding]:
        return [
            Finding(found.code, found.severity.value, dotted(found.path), found.message, found.hint)
            for found in compiled(text, files).diagnostics
        ]

    return judge
