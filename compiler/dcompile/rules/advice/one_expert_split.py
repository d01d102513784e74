"""One of two denoisers is not split.

What it checks: a pipeline with two denoisers whose splits differ.

Why it matters: the picture is right and the job half as fast as it could be.

Example: `components: {transformer: {context: {ulysses: 2}}}` with Wan 2.2

Use instead: `context` at the top level, which holds for both

Source: diffusers 0.42.1, `pipeline_wan.py:597` (row CPA-18).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.rules.rule import Rule, Subject, warning


def check(subject: Subject) -> Iterator[Diagnostic]:
    splits = {name: subject.split(name) for name in subject.facts.model.denoisers if name in subject.splits.components}
    whole = [name for name, split in splits.items() if split.tensor == split.context == 1]
    if whole and len(whole) < len(splits):
        message = f"`{whole[0]}` is not split while the other denoiser is"
        hint = "write the split at the top level of `parallel`, where it holds for both"
        yield warning("DC602", message, hint, subject.given("parallel", "components"))


RULE = Rule("DC602", check)
