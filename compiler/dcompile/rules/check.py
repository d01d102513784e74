"""Stage 4: a recipe and its facts to a `CheckedRecipe`, or to what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from dcompile.core.diagnostics import Diagnostic, Severity, has_errors
from dcompile.core.numbered import numbered
from dcompile.facts.prompts import Row
from dcompile.facts.resolve import Facts
from dcompile.layout.settings import has_own_shape, recipe_of_row, rows_by_shape, shape_of_row
from dcompile.recipe.model import Recipe
from dcompile.rules.catalog import FIT_RULES, JOB_RULES, ROW_RULES, RULES, run_rules
from dcompile.rules.rule import Rule, Subject, subject_of


@dataclass(frozen=True)
class CheckedRecipe:
    """A recipe that every rule accepts. Only `check` makes one."""

    subject: Subject


def _row_subjects(subject: Subject) -> list[tuple[Row, Subject]]:
    """The job as each row sees it that has a shape of its own, the first of each shape."""
    return [
        (row, subject_of(recipe_of_row(subject.recipe, row), subject.facts))
        for row in rows_by_shape(subject.facts)
        if has_own_shape(row)
    ]


def _first_of_each_code(facts: Facts, found: Iterable[tuple[Row, tuple[Diagnostic, ...]]]) -> tuple[Diagnostic, ...]:
    """The first diagnostic of each code, said of its picture and pointing at the prompts; of the others the numbers."""
    first: dict[str, tuple[Row, Diagnostic]] = {}
    shapes: dict[str, set[tuple[str, ...]]] = {}
    for row, diagnostics in found:
        for diagnostic in diagnostics:
            first.setdefault(diagnostic.code, (row, diagnostic))
            shapes.setdefault(diagnostic.code, set()).add(shape_of_row(row, facts))
    every = [(one.index, shape_of_row(one, facts)) for one in facts.rows] if first else []
    said = []
    for code, (row, diagnostic) in first.items():
        others = [index for index, shape in every if shape in shapes[code] and index != row.index]
        message = f"picture {row.index}: {diagnostic.message}"
        message += f"; refused too: {numbered('picture', others)}" if others else ""
        said.append(replace(diagnostic, message=message, path=("run", "prompts")))
    return tuple(said)


def errors_of_rules(recipe: Recipe, facts: Facts) -> tuple[Diagnostic, ...]:
    """What the rules but those of memory refuse in a recipe that cannot run for another reason."""
    return tuple(item for item in run_rules(RULES, subject_of(recipe, facts)) if item.severity is Severity.ERROR)


@lru_cache(maxsize=2)
def _without(known: tuple[Rule, ...]) -> tuple[Rule, ...]:
    return tuple(rule for rule in RULES if rule not in known)


def _nothing(_: Diagnostic) -> bool:
    return False


_CODES = frozenset(rule.code for rule in RULES)
_LATER = frozenset(rule.code for rule in (*ROW_RULES, *FIT_RULES))
_JOB = frozenset(rule.code for rule in JOB_RULES)
_OF_JOB = _JOB - {rule.code for rule in RULES if rule not in JOB_RULES} - _LATER


def asked_of_job(found: Iterable[Diagnostic]) -> frozenset[str]:
    """The codes that were really looked for in a job without a plan, where only rules of the job have an error."""
    errors = {item.code for item in found if item.severity is Severity.ERROR}
    return _OF_JOB if errors <= _JOB else frozenset()


def _asked(found: Iterable[Diagnostic]) -> frozenset[str]:
    """The codes of `RULES` that were really looked for, in spite of what they found.

    Every rule was asked; but those about a plan that cannot be have nothing to look at, and their silence says nothing.
    """
    errors = {item.code for item in found if item.severity is Severity.ERROR}
    return (_CODES if errors <= _JOB else _OF_JOB) - _LATER


def check(
    subject: Subject,
    is_ignored: Callable[[Diagnostic], bool] = _nothing,
    known: tuple[Rule, ...] = (),
    asked: set[str] | None = None,
) -> tuple[CheckedRecipe | None, tuple[Diagnostic, ...]]:
    """Run every rule. The fit is judged only where a layout exists, and what is left idle only where the rest fits, so
    that one cause gives one diagnostic.

    Args:
        subject: the job.
        is_ignored: whether the recipe says that it accepts a finding (`# dcompile: ignore ...`); it is left out then.
        known: rules whose findings are known, because they were asked of the same job.
        asked: gets the codes that were really looked for: where an error stands, the silence of the rest says nothing.
    """
    asked = set() if asked is None else asked

    def heard(found: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
        return tuple(diagnostic for diagnostic in found if not is_ignored(diagnostic))

    diagnostics = heard(run_rules(_without(known), subject))
    asked |= _asked(diagnostics)
    if not has_errors(diagnostics):
        found = ((row, run_rules(ROW_RULES, own)) for row, own in _row_subjects(subject))
        diagnostics += heard(_first_of_each_code(subject.facts, found))
        asked |= {rule.code for rule in ROW_RULES}
    if has_errors(diagnostics):
        return None, diagnostics
    for rule in FIT_RULES:
        diagnostics += heard(run_rules((rule,), subject))
        if has_errors(diagnostics):
            return None, diagnostics
    return CheckedRecipe(subject), diagnostics
