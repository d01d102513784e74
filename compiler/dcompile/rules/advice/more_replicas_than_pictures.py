"""There are more replicas than pictures.

What it checks: `parallel.data` against the number of pictures.

Why it matters: the spare replicas load the model and make nothing.

Example: `data: 8` with 3 prompts

Use instead: `data: 3`

Source: our own (row DP-01).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.rules.rule import Rule, Subject, warning


def check(subject: Subject) -> Iterator[Diagnostic]:
    count = len(subject.facts.rows)
    if subject.splits.data > count:
        pictures = f"{count} picture" + ("s" if count != 1 else "")
        message = f"{subject.splits.data} replicas for {pictures}: the spare ones make nothing"
        yield warning("DC601", message, f"use `data: {count}`", ("parallel", "data"))


RULE = Rule("DC601", check)
