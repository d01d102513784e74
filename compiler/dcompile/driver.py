"""The stages in order: read this first.

    recipe.yaml --read--> Document --decode--> Recipe --resolve--> Facts
                --check--> CheckedRecipe --build_plan--> Plan --lower--> Program --plan_document--> plan.json

Each stage is a function from one frozen type to the next and returns every diagnostic it has; the first stage that
has an error is the last that runs. Nothing here writes a file or imports torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dcompile.core.diagnostics import Diagnostic, has_errors
from dcompile.emit.plan_json import plan_document
from dcompile.facts.resolve import resolve
from dcompile.lower.program import lower
from dcompile.plan.build import build_plan
from dcompile.plan.types import Plan
from dcompile.recipe.decode import decode
from dcompile.recipe.model import Recipe
from dcompile.rules.check import check
from dcompile.source.document import Document
from dcompile.source.read import read


@dataclass(frozen=True)
class Compiled:
    """What came of a recipe. The later fields are None where an earlier stage found an error."""

    file: Path
    diagnostics: tuple[Diagnostic, ...]
    document: Document | None = None
    recipe: Recipe | None = None
    plan: Plan | None = None
    plan_json: dict[str, Any] | None = None

    @property
    def is_valid(self) -> bool:
        """Whether the recipe can run."""
        return self.plan_json is not None and not has_errors(self.diagnostics)


def compile_recipe(file: Path, overrides: Sequence[str] = (), roots: Sequence[Path] = ()) -> Compiled:
    """Run the stages on one recipe.

    Args:
        file: the recipe.
        overrides: `run.seed=7` and the like, applied over the file.
        roots: folders in which a base of `extends` is also looked for.

    Raises:
        OSError: where the recipe itself cannot be read.
    """
    document, diagnostics = read(file, roots=roots, overrides=overrides)
    if document is None:
        return Compiled(file, diagnostics)

    recipe, more = decode(document)
    diagnostics += more
    if recipe is None or has_errors(diagnostics):
        return Compiled(file, diagnostics, document)

    facts, more = resolve(recipe, file.resolve().parent)
    diagnostics += more
    if facts is None:
        return Compiled(file, diagnostics, document, recipe)

    checked, more = check(recipe, facts)
    diagnostics += more
    if checked is None:
        return Compiled(file, diagnostics, document, recipe)

    plan = build_plan(checked)
    program = lower(plan)
    name = recipe.name or file.stem
    return Compiled(file, diagnostics, document, recipe, plan, plan_document(plan, program, name))
