"""The class cannot run with its sequence split.

What it checks: whether the component's class has a context-parallel plan.

Why it matters: diffusers refuses it after the weights were loaded; a plan written by hand gives wrong pictures in
silence where the attention ignores it.

Example: `parallel: {context: {ulysses: 2}}` with SDXL

Use instead: `data: 2`

Source: diffusers 0.42.1, `models/modeling_utils.py:1825` (rows CPA-01, CPA-02, CPA-12, CPA-19, CPA-20, CPB-14).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.facts.registry import classes_with_context_plan
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    for name, split in subject.splits.components.items():
        facts = subject.facts.model.components[name]
        if split.context > 1 and not facts.context_plan:
            instead = "use `tensor`" if facts.tensor_plan else "use `data` or `device_map`"
            hint = f"{instead}; {', '.join(classes_with_context_plan())} have one"
            if name not in subject.facts.model.denoisers:
                hint = f"`tensor: {split.context}` splits its weights" if facts.tensor_plan else "leave it whole"
            yield error("DC406", f"{facts.class_name} has no context-parallel plan", hint, split.where)


RULE = Rule("DC406", check)
