"""Ranks give up on each other sooner than they can start.

What it checks: `launch.timeout_seconds` below 30, with more than one rank.

Why it matters: a rank imports torch and diffusers and reads weights before it meets the others; on a busy machine that
takes the slowest some ten seconds longer, and the first one ends the job.

Example: `launch: {timeout_seconds: 5}` with `data: 2`

Use instead: `timeout_seconds: 600`, the default

Source: torch 2.13.0, `distributed/distributed_c10d.py`: the timeout holds for each collective (rows GEN-13, GEN-16).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.rules.rule import Rule, Subject, warning

LEAST_SECONDS = 30
"""What a rank may need to import its libraries while others do the same."""


def check(subject: Subject) -> Iterator[Diagnostic]:
    seconds = subject.recipe.launch.timeout_seconds
    if subject.splits.ranks > 1 and seconds < LEAST_SECONDS:
        message = f"ranks that start {seconds} s apart give up on each other"
        yield warning("DC422", message, "use `timeout_seconds: 600`", ("launch", "timeout_seconds"))


RULE = Rule("DC422", check)
