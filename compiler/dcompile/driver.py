"""The stages in order: read this first.

    recipe.yaml --read--> Document --decode--> Recipe --resolve--> Facts
                --check or choose--> CheckedRecipe --build_plan--> Plan --lower--> Program --plan_document--> plan.json

Each stage is a function from one frozen type to the next and returns every diagnostic it has; the first stage that
has an error is the last that runs, but the later ones are still asked what they would say about the rest of the
recipe (`further_errors`). No stage behind `check` refuses anything, so those run when somebody asks for what they make,
and a checker neither waits for them nor imports them. Nothing here writes a file or imports torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dcompile.core.diagnostics import Diagnostic, Severity, has_errors
from dcompile.core.diagnostics import Path as FieldPath
from dcompile.facts.resolve import Facts, resolve
from dcompile.plan.auto.bounds import asks_auto
from dcompile.recipe.decode import decode
from dcompile.recipe.model import Recipe
from dcompile.rules.check import CheckedRecipe, asked_of_job, check, errors_of_rules
from dcompile.rules.model.needs_pictures import NEEDS_PICTURES
from dcompile.rules.rule import subject_of
from dcompile.source.document import Document
from dcompile.source.files import read_text
from dcompile.source.read import read_bytes
from dcompile.source.suppressions import Ignored

if TYPE_CHECKING:
    from dcompile.lower.program import Program
    from dcompile.plan.auto.choose import Choice
    from dcompile.plan.types import Plan

OF_THE_PIPELINE = {"DC306", "DC330", "DC361", "DC362", "DC365", "DC366", "DC367", "DC416", "DC417", "DC442"}
"""What is wrong for one pipeline class and right for another: not to be said where the class is not clear."""


@dataclass(frozen=True)
class Compiled:
    """What came of a recipe. The later fields are None where an earlier stage found an error."""

    file: Path
    diagnostics: tuple[Diagnostic, ...]
    document: Document | None = None
    recipe: Recipe | None = None
    facts: Facts | None = None
    checked: CheckedRecipe | None = None

    @property
    def is_valid(self) -> bool:
        """Whether the recipe can run."""
        return self.checked is not None and not has_errors(self.diagnostics)

    @cached_property
    def choice(self) -> Choice | None:
        """Where the recipe asks for `auto`, what its plan was chosen from, and why."""
        from dcompile.plan.auto.choose import choose

        if self.checked is None or self.recipe is None or self.facts is None or not asks_auto(self.recipe):
            return None
        return choose(self.recipe, self.facts, lambda _: False)[0]

    @cached_property
    def plan(self) -> Plan | None:
        """The layout of every component, and why."""
        from dcompile.plan.build import build_plan

        if self.checked is None or self.recipe is None:
            return None
        return build_plan(self.checked, self.recipe, self.choice.decisions if self.choice is not None else ())

    @cached_property
    def program(self) -> Program | None:
        """What each rank does."""
        from dcompile.lower.program import lower

        return None if self.plan is None else lower(self.plan)

    @cached_property
    def plan_json(self) -> dict[str, Any] | None:
        """The content of `plan.json`."""
        from dcompile.emit.plan_json import plan_document

        if self.plan is None or self.program is None or self.recipe is None:
            return None
        return plan_document(self.plan, self.program, self.recipe.name or self.file.stem)

    @cached_property
    def bundle(self) -> dict[str, str] | None:
        """The files of `build/<name>/`: path to content."""
        if self.plan is None or self.program is None or self.plan_json is None:
            return None
        from dcompile.emit.bundle import files_of
        from dcompile.emit.drawn import drawn_of

        return files_of(self.plan_json, drawn_of(self.plan, self.program))


def compile_recipe(
    file: Path, overrides: Sequence[str] = (), roots: Sequence[Path] = (), text: bytes | None = None
) -> Compiled:
    """Run the stages on one recipe.

    Args:
        file: the recipe.
        overrides: `run.seed=7` and the like, applied over the file.
        roots: folders in which a base of `extends` is also looked for.
        text: the recipe's text, where it is not the file's.

    Raises:
        OSError: where the recipe itself cannot be read.
    """
    content = read_text(file) if text is None else text
    document, diagnostics = read_bytes(content, str(file), roots=roots, overrides=overrides)
    if document is None:
        return Compiled(file, diagnostics)

    recipe, more = decode(document)
    diagnostics += more
    root = file.resolve().parent
    if recipe is None or has_errors(diagnostics):
        return Compiled(file, diagnostics + further_errors(document, diagnostics, root), document)

    facts, more = resolve(recipe, root)
    diagnostics += more
    if facts is None:
        return Compiled(file, diagnostics + further_errors(document, diagnostics, root), document, recipe)

    ignored = Ignored(document)
    asked: set[str] = set()
    if asks_auto(recipe):
        from dcompile.plan.auto.verdict import verdict

        checked, more = verdict(recipe, facts, ignored)
        asked |= asked_of_job(more)
    else:
        checked, more = check(subject_of(recipe, facts), ignored, asked=asked)
    if checked is None:
        diagnostics += ignored.refused(more) + ignored.unused(asked)
        return Compiled(file, diagnostics, document, recipe, facts)
    diagnostics += more + ignored.unused()
    return Compiled(file, diagnostics, document, recipe, facts, checked)


def further_errors(document: Document, found: tuple[Diagnostic, ...], root: Path) -> tuple[Diagnostic, ...]:
    """What later stages refuse however the mistakes that are `found` will be mended, so that all are told at once.

    Only errors of facts and rules: whether a recipe fits, and what is merely unwise, hangs on all of it.
    """
    from dcompile.recipe.readings import readings

    more: tuple[Diagnostic, ...] = ()
    for stage in (_errors_of_facts, _errors_of_rules):
        said = [stage(recipe, root) for recipe in readings(document, (*found, *more))]
        if said:
            places = {item.path for item in (*found, *more)}
            same = (item for item in said[0] if all(item in others for others in said[1:]))
            # Rows that cannot be read may have the pictures that nothing else names.
            unread = {NEEDS_PICTURES} if ("run", "prompts") in places else set()
            if places & {("model", "pipeline"), ("run", "task")}:
                unread |= OF_THE_PIPELINE
            news = tuple(item for item in same if item.path not in places and item.code not in unread)
            more += tuple(replace(item, path=_as_written(item.path, found)) for item in news)
    return more


def _as_written(path: FieldPath, found: tuple[Diagnostic, ...]) -> FieldPath:
    """Where a field stands in the recipe that was read as if its mistakes were mended."""
    for item in found:
        new = item.new_path
        if new is not None and path[: len(new)] == new:
            return (*item.path, *path[len(new) :])
    return path


def _errors_of_facts(recipe: Recipe, root: Path) -> tuple[Diagnostic, ...]:
    return tuple(item for item in resolve(recipe, root)[1] if item.severity is Severity.ERROR)


def _errors_of_rules(recipe: Recipe, root: Path) -> tuple[Diagnostic, ...]:
    facts, _ = resolve(recipe, root)
    return errors_of_rules(recipe, facts) if facts is not None and not asks_auto(recipe) else ()
