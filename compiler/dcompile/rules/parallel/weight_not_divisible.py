"""A weight of the tensor plan cannot be divided by the degree.

What it checks: every planned dimension and every fused part of it.

Why it matters: diffusers names one weight and stops, after the process group has started.

Example: `tensor: 8` where a fused MLP has an odd width

Use instead: a degree that divides it

Source: diffusers 0.42.1, `hooks/tensor_parallel.py:173` (rules.md TPC-04).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.layout.shard import undivided
from dcompile.layout.tokens import divisors, say_choices
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    for name, split in subject.splits.components.items():
        facts = subject.facts.model.components[name]
        if split.tensor == 1 or (facts.heads is not None and facts.heads % split.tensor):
            continue  # DC401 is the cause
        for parameter, size in undivided(facts, split.tensor)[:1]:
            message = f"`{parameter}` of `{name}` has a part of {size}, which tensor {split.tensor} cannot divide"
            yield error("DC412", message, f"use {say_choices(divisors(size, facts.heads or 64))}", split.where)


RULE = Rule("DC412", check)
