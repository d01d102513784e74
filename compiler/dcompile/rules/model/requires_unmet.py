"""The recipe requires versions that the facts do not know.

What it checks: `requires` against the version of diffusers that the model's facts were generated from.

Why it matters: a verdict by the facts of another version can be wrong in both directions.

Example: `requires: {diffusers: ">=0.43"}`

Use instead: `requires: {diffusers: ">=0.42"}`

Source: our own; each file in `models/` names its version.
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.core.meant import meant
from dcompile.core.versions import satisfies
from dcompile.rules.rule import Rule, Subject, error

LIBRARIES = ("diffusers", "torch", "transformers", "accelerate", "peft", "dcompile")


def check(subject: Subject) -> Iterator[Diagnostic]:
    known = subject.facts.model.diffusers
    for name, specifier in subject.recipe.requires.items():
        path = ("requires", name)
        if name not in LIBRARIES:
            only = meant(name, LIBRARIES)
            hint = f"did you mean `{only}`?" if only else f"use {', '.join(LIBRARIES)}"
            fix = None if only in subject.recipe.requires else only
            message = f"`{name}` is none of the libraries that a plan uses"
            yield error("DC310", message, hint, path, is_key=True, fix=fix)
            continue
        try:
            met = name != "diffusers" or satisfies(known, specifier)
            satisfies("0", specifier)
        except ValueError as fault:
            yield error("DC310", str(fault), "clauses are joined by commas", path)
            continue
        if not met:
            message = f"the facts are for diffusers {known}, which `{specifier}` excludes"
            yield error("DC310", message, f'write `">={known}"`, or a range that includes it', path)


RULE = Rule("DC310", check)
