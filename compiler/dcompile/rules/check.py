"""Stage 4: a recipe and its facts to a `CheckedRecipe`, or to what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass

from dcompile.core.diagnostics import Diagnostic, has_errors
from dcompile.facts.resolve import Facts
from dcompile.recipe.model import Recipe
from dcompile.rules.catalog import FIT_RULES, RULES, run_rules
from dcompile.rules.rule import Subject, subject_of


@dataclass(frozen=True)
class CheckedRecipe:
    """A recipe that every rule accepts. Only `check` makes one."""

    subject: Subject


def check(recipe: Recipe, facts: Facts) -> tuple[CheckedRecipe | None, tuple[Diagnostic, ...]]:
    """Run every rule. The fit is judged only where a layout exists, so that one cause gives one diagnostic."""
    subject = subject_of(recipe, facts)
    diagnostics = run_rules(RULES, subject)
    if has_errors(diagnostics):
        return None, diagnostics
    diagnostics += run_rules(FIT_RULES, subject)
    return (None if has_errors(diagnostics) else CheckedRecipe(subject)), diagnostics
