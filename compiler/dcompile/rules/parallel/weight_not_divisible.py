"""A weight of the tensor plan cannot be divided by the degree.

What it checks: every planned dimension and every fused part of it.

Why it matters: diffusers names one weight and stops, after the process group has started.

Example: `tensor: 8` where a fused MLP has an odd width

Use instead: a degree that divides it

Source: diffusers 0.42.1, `hooks/tensor_parallel.py:173` (row TPC-04).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.layout.degrees import key_value_heads, tensor_degrees
from dcompile.layout.shard import undivided
from dcompile.layout.tokens import say_choices
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    for name, split in subject.splits.components.items():
        facts = subject.facts.model.components[name]
        heads = (facts.heads, key_value_heads(facts))
        if split.tensor == 1 or any(count is not None and count % split.tensor for count in heads):
            continue  # DC401 is the cause
        for parameter, size in undivided(facts, split.tensor)[:1]:
            message = f"`{parameter}` of `{name}` has a part of {size}, which tensor {split.tensor} cannot divide"
            yield error("DC412", message, f"use {say_choices(tensor_degrees(facts))}", split.where)


RULE = Rule("DC412", check)
