"""Stage 4: a recipe and its facts to a `CheckedRecipe`, or to what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from dcompile.core.diagnostics import Diagnostic, has_errors
from dcompile.facts.resolve import Facts
from dcompile.recipe.model import Recipe
from dcompile.rules.catalog import FIT_RULES, ROW_RULES, RULES, run_rules
from dcompile.rules.rule import Subject, subject_of


@dataclass(frozen=True)
class CheckedRecipe:
    """A recipe that every rule accepts. Only `check` makes one."""

    subject: Subject


OWN = ("height", "width", "frames", "max_sequence_length")
"""Columns of a prompt file that shapes follow from."""


def _row_subjects(subject: Subject) -> list[tuple[int, Subject]]:
    """The job as each row sees it that has a shape of its own, the first of each shape; with the row's index."""
    found: dict[tuple[object, ...], tuple[int, Subject]] = {}
    recipe = subject.recipe
    for row in subject.facts.rows:
        shape = tuple(row.args.get(key) for key in OWN)
        if shape in found or not any(value is not None for value in shape):
            continue
        own = {key: row.args[key] for key in OWN[:3] if key in row.args}
        text = {key: row.args[key] for key in OWN[3:] if key in row.args}
        run = recipe.run.model_copy(update={**own, "args": {**recipe.run.args, **text}})
        found[shape] = (row.index, subject_of(recipe.model_copy(update={"run": run}), subject.facts))
    return list(found.values())


def _pixels(row: tuple[int, Subject]) -> int:
    settings = row[1].settings
    return settings.height_px * settings.width_px * (settings.frames or 1)


def _first_of_each_code(found: Iterable[tuple[int, tuple[Diagnostic, ...]]]) -> tuple[Diagnostic, ...]:
    """The first diagnostic of each code, said of its picture and pointing at the prompts."""
    first: dict[str, Diagnostic] = {}
    for index, diagnostics in found:
        for diagnostic in diagnostics:
            message = f"picture {index}: {diagnostic.message}"
            first.setdefault(diagnostic.code, replace(diagnostic, message=message, path=("run", "prompts")))
    return tuple(first.values())


def check(recipe: Recipe, facts: Facts) -> tuple[CheckedRecipe | None, tuple[Diagnostic, ...]]:
    """Run every rule. The fit is judged only where a layout exists, so that one cause gives one diagnostic."""
    subject = subject_of(recipe, facts)
    diagnostics = run_rules(RULES, subject)
    if not has_errors(diagnostics):
        rows = _row_subjects(subject)
        diagnostics += _first_of_each_code((index, run_rules(ROW_RULES, row)) for index, row in rows)
    if has_errors(diagnostics):
        return None, diagnostics
    fit = run_rules(FIT_RULES, subject)
    if not fit and rows:
        fit = _first_of_each_code((index, run_rules(FIT_RULES, row)) for index, row in [max(rows, key=_pixels)])
    diagnostics += fit
    return (None if has_errors(diagnostics) else CheckedRecipe(subject)), diagnostics
