"""More text tokens are asked for than the encoder takes.

What it checks: `run.args.max_sequence_length` against the pipeline's limit.

Why it matters: the pipeline raises after every weight was loaded.

Example: `run: {args: {max_sequence_length: 1024}}` with Flux

Use instead: `512`

Source: diffusers 0.42.1, `pipeline_flux.py:504`, `pipeline_qwenimage.py:329` (row CALL-04).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    limit = subject.facts.model.tokens.get("text_limit", 0)
    asked = subject.recipe.run.args.get("max_sequence_length")
    if "max_sequence_length" in subject.recipe.run.args and (type(asked) is not int or asked < 1):
        message = "max_sequence_length is no whole number above 0"
        yield error("DC309", message, "write a number, such as 256", ("run", "args", "max_sequence_length"))
    elif isinstance(asked, int) and limit and asked > limit:
        message = f"max_sequence_length {asked} is more than the {limit} tokens that the pipeline takes"
        yield error("DC309", message, f"use {limit} or less", ("run", "args", "max_sequence_length"))


RULE = Rule("DC309", check)
