"""One component is split by `tensor` and by `context`.

What it checks: the splits of each component.

Why it matters: diffusers refuses the two on one model.

Example: `parallel: {tensor: 2, context: {ulysses: 2}}`

Use instead: one of them; `data` multiplies with either

Source: diffusers 0.42.1, `models/_modeling_parallel.py:218` (row CMB-01, CMB-02).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    for split in dict.fromkeys(subject.splits.components.values()):
        if split.tensor > 1 and split.context > 1:
            message = "diffusers cannot split one component by `tensor` and by `context`"
            yield error("DC404", message, "keep one of the two; `data` multiplies with either", split.where)


RULE = Rule("DC404", check)
