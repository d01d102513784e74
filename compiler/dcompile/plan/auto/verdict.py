"""What `check` says of a recipe that asks for `auto`: the plan that is chosen, without what it was chosen from."""

from __future__ import annotations

from collections.abc import Callable

from dcompile.core.diagnostics import Diagnostic
from dcompile.facts.resolve import Facts
from dcompile.plan.auto.choose import choose, findings
from dcompile.plan.auto.winner import winner
from dcompile.recipe.model import Recipe
from dcompile.rules.check import CheckedRecipe


def verdict(
    recipe: Recipe, facts: Facts, is_ignored: Callable[[Diagnostic], bool]
) -> tuple[CheckedRecipe | None, tuple[Diagnostic, ...]]:
    """The recipe with the plan of `choose(recipe, facts, is_ignored)`, and the findings of that.

    Where none is chosen, the whole search says why.
    """
    found = winner(recipe, facts)
    if found is None:
        return None, choose(recipe, facts, is_ignored)[1]
    diagnostics = findings(recipe, facts, found)
    return found.checked, tuple(one for one in diagnostics if not is_ignored(one))
