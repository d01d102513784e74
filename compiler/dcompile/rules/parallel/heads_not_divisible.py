"""The attention heads cannot be divided by the degree.

What it checks: `tensor` and `ulysses` degrees against the denoiser's heads; under `uneven`, that the heads that fill up
the last rank are fewer than those of a rank.

Why it matters: tensor parallel is refused by diffusers; Ulysses fails at the first step, after every weight was
loaded.

Example: `parallel: {context: {ulysses: 5}}` with 24 heads

Use instead: `ulysses: 4` or `6`; for as many ranks, `ulysses` and `ring` together

Source: diffusers 0.42.1, `hooks/tensor_parallel.py:399`, `models/attention_dispatch.py:2566` and `:2251` (rows TPC-03,
CPS-07, CPS-09).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dcompile.core.diagnostics import Diagnostic
from dcompile.layout.attention import attention_use, legal_backends
from dcompile.layout.degrees import key_value_heads, tensor_degrees, unified
from dcompile.layout.splits import Split
from dcompile.layout.tokens import divisors, say_choices
from dcompile.rules.parallel.context_plan_unusable import is_refused
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    for name, split in subject.splits.components.items():
        facts = subject.facts.model.components[name]
        heads = facts.heads
        if heads is None:
            continue
        choices = say_choices(divisors(heads))
        if split.tensor > 1 and facts.tensor_plan:
            few = key_value_heads(facts)
            for count, kind in ((heads, "heads"), (few, "key-value heads")):
                if count is not None and count % split.tensor:
                    message = f"{count} {kind} of `{name}` cannot be divided by tensor {split.tensor}"
                    yield error("DC401", message, f"use {say_choices(tensor_degrees(facts))}", split.where)
                    break
        if split.ulysses > 1 and heads % split.ulysses and not is_refused(subject, name):
            path = (*split.where, "ulysses")
            padding, of_a_rank = -heads % split.ulysses, -(-heads // split.ulysses)
            if not split.uneven:
                message = f"{heads} heads of `{name}` cannot be divided by ulysses {split.ulysses}"
                yield error("DC401", message, f"use {choices}{_others(subject, name, split, heads)}", path)
            elif padding >= of_a_rank:
                message = f"{heads} heads of `{name}` leave ulysses {split.ulysses} with {padding} empty ones"
                hint = f"`uneven` takes fewer than {of_a_rank}; use {choices}{_others(subject, name, split, heads)}"
                yield error("DC401", message, hint, path)


def _others(subject: Subject, name: str, split: Split, heads: int) -> str:
    """A split over as many ranks that keeps to the heads, as the end of a hint."""
    both = unified(heads, split.context)
    if both is None or both == (split.ulysses, split.ring):
        return ""
    other = replace(split, ulysses=both[0], ring=both[1], uneven=False)
    use = attention_use(subject.recipe, subject.facts, subject.splits, name, other)
    if use.mask is not None or not legal_backends(use):
        return ""
    return f"; `{{ulysses: {both[0]}, ring: {both[1]}}}` for {split.context} ranks"


RULE = Rule("DC401", check)
