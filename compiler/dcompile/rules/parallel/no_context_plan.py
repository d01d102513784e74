"""The class cannot run with its sequence split.

What it checks: whether the component's class has a context-parallel plan.

Why it matters: diffusers refuses it; a plan written by hand gives wrong pictures in silence.

Example: `parallel: {context: {ulysses: 2}}` with SDXL

Use instead: `data: 2`

Source: diffusers 0.42.1, `models/modeling_utils.py:1825` (rules.md CPA-01, CPA-02).
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
        if split.context > 1 and not facts.context_plan:
            hint = "use `tensor`" if facts.tensor_plan else "use `data` or `device_map`"
            yield error("DC406", f"{facts.class_name} has no context-parallel plan", hint, split.where)


RULE = Rule("DC406", check)
