"""A component's class is in no data file and could not be asked.

What it checks: the classes of a folder against those that the facts cover. Others of diffusers are asked on the meta
device where it is installed; a repository's own code is never run to check a recipe.

Why it matters: what such a class can do is not known, so it counts as one without tensor and context plans: a recipe
that splits it is refused though it may run.

Example: a folder whose transformer is of a class that a newer diffusers added, checked where torch is not installed

Use instead: `pip install 'dcompile[run]'` here, or commit what `dcompile models add` writes on a machine that has it

Source: our own.
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.rules.rule import Rule, Subject, warning


def check(subject: Subject) -> Iterator[Diagnostic]:
    for name, facts in subject.facts.model.components.items():
        if facts.is_guessed:
            message = f"`{facts.class_name}` of `{name}` is in no data file and cannot be asked here"
            hint = "it counts as a class without plans; where its diffusers is installed, `dcompile models add` asks it"
            yield warning("DC314", message, hint, subject.given("model", "path"))


RULE = Rule("DC314", check)
