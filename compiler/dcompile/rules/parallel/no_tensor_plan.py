"""The class has no tensor-parallel plan.

What it checks: whether the component's class carries a plan.

Why it matters: diffusers refuses it after the process group has started.

Example: `parallel: {tensor: 2}` with Wan

Use instead: `context: {ulysses: 2}`

Source: diffusers 0.42.1, `hooks/tensor_parallel.py:393` (rules.md TPC-02, TPC-26).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    for name, split in subject.splits.components.items():
        if name not in subject.facts.model.denoisers:
            continue  # DC400 is the cause
        facts = subject.facts.model.components[name]
        if split.tensor > 1 and not facts.tensor_plan:
            hint = "use `context`" if facts.context_plan else "use `device_map` or `data`"
            yield error("DC405", f"{facts.class_name} has no tensor-parallel plan", hint, split.where)


RULE = Rule("DC405", check)
