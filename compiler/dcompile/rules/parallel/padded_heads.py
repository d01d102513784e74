"""Uneven Ulysses fills up the heads, and the ranks compute heads that are not there.

What it checks: `uneven` with a ulysses degree that does not divide the heads.

Why it matters: the picture is right, and a part of every rank's attention is spent on nothing.

Example: `context: {ulysses: 5, uneven: true}` with 24 heads, which are filled up to 25

Use instead: `ulysses: 4` or `6`

Source: diffusers 0.42.1, `models/attention_dispatch.py:2235` (row CPS-09).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.layout.tokens import divisors, say_choices
from dcompile.rules.rule import Rule, Subject, advice


def check(subject: Subject) -> Iterator[Diagnostic]:
    for name, split in subject.splits.components.items():
        facts = subject.facts.model.components[name]
        heads = facts.heads if facts.context_plan else None
        if heads is None or not split.uneven or split.ulysses == 1 or heads % split.ulysses == 0:
            continue
        padding = -heads % split.ulysses
        if padding < -(-heads // split.ulysses):  # more than that is DC401
            slots = heads + padding
            message = (
                f"{padding} of {slots} head slots of `{name}` are padding: at most {heads / slots:.0%} of the speed"
            )
            choices = say_choices(divisors(heads))
            yield advice("DC421", message, f"{choices} need none", (*split.where, "ulysses"))


RULE = Rule("DC421", check)
