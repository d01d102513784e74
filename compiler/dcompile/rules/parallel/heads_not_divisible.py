"""The attention heads cannot be divided by the degree.

What it checks: `tensor` and `ulysses` degrees against the denoiser's heads.

Why it matters: tensor parallel is refused by diffusers; Ulysses fails at the first step, after every weight was
loaded.

Example: `parallel: {context: {ulysses: 5}}` with 24 heads

Use instead: `ulysses: 4` or `6`

Source: diffusers 0.42.1, `hooks/tensor_parallel.py:399`, `models/attention_dispatch.py:2566` (rules.md TPC-03,
CPS-07, CPS-09).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.layout.tokens import divisors, say_choices
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    for name, split in subject.splits.components.items():
        heads = subject.facts.model.components[name].heads
        if heads is None:
            continue
        choices = say_choices(divisors(heads))
        if split.tensor > 1 and heads % split.tensor:
            message = f"{heads} heads of `{name}` cannot be divided by tensor {split.tensor}"
            yield error("DC401", message, f"use {choices}", split.where)
        if split.ulysses > 1 and heads % split.ulysses:
            path = (*split.where, "ulysses")
            # Padded heads must leave every rank with at least one real head (attention_dispatch.py:2251).
            padding = -heads % split.ulysses
            if not split.uneven or padding >= -(-heads // split.ulysses):
                message = f"{heads} heads of `{name}` cannot be divided by ulysses {split.ulysses}"
                yield error("DC401", message, f"use {choices}", path)


RULE = Rule("DC401", check)
