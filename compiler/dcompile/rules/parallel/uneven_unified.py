"""`uneven` works for Ulysses alone or ring alone.

What it checks: `uneven` with both degrees above 1 (an error), and with none (a warning: it has no effect).

Why it matters: diffusers refuses the combination.

Example: `context: {ulysses: 2, ring: 2, uneven: true}`

Use instead: `context: {ulysses: 4, uneven: true}`

Source: diffusers 0.42.1, `models/_modeling_parallel.py:116` (row CPC-04, CPC-05).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic, Remove
from dcompile.rules.rule import Rule, Subject, error, warning


def check(subject: Subject) -> Iterator[Diagnostic]:
    for split in dict.fromkeys(subject.splits.components.values()):
        if split.uneven and split.ring > 1 and split.ulysses > 1:
            message = f"`uneven` cannot be combined with ulysses {split.ulysses} and ring {split.ring} together"
            hint = f"use `ulysses: {split.context}` or `ring: {split.context}` alone"
            yield error("DC411", message, hint, (*split.where, "uneven"))
        elif split.uneven and split.context == 1:
            path = (*split.where, "uneven")
            yield warning("DC411", "`uneven` has no effect at degree 1", "leave it out", path, fix=Remove())


RULE = Rule("DC411", check)
