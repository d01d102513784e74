"""The class has no tensor-parallel plan.

What it checks: whether the component's class carries a plan: diffusers' `_tp_plan`, or of a text encoder the plan of
transformers.

Why it matters: diffusers refuses it after the process group has started. A plan written by hand is wrong in silence
where the attention counts the heads of the whole layer (Wan, PixArt, T5, CLIP).

Example: `parallel: {tensor: 2}` with Wan

Use instead: `context: {ulysses: 2}`

Source: diffusers 0.42.1, `hooks/tensor_parallel.py:393`; transformers 5.24, `distributed/mixin.py:260` (rows TPC-02,
TPC-26, TEP-01).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.layout.splits import Split
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    for name, split in subject.splits.components.items():
        facts = subject.facts.model.components[name]
        if split.tensor > 1 and not facts.tensor_plan:
            message = f"{facts.class_name} has no tensor-parallel plan"
            yield error("DC405", message, _hint(subject, name, split), split.where)


def _hint(subject: Subject, name: str, split: Split) -> str:
    components = subject.facts.model.components
    if name in subject.facts.model.denoisers:
        return "use `context`" if components[name].context_plan else "use `device_map` or `data`"
    able = [f"`{other}`" for other, facts in components.items() if facts.tensor_plan]
    if not able:
        return f"leave `{name}` whole: nothing of {subject.facts.model.pipeline} has a plan"
    return f"leave `{name}` whole: of {subject.facts.model.pipeline}, {' and '.join(able)} can be split so"


RULE = Rule("DC405", check)
