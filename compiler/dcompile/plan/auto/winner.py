"""The plan that `choose` would choose, and no more: what is sure to take longer is not judged."""

from __future__ import annotations

from dcompile.core.diagnostics import has_errors
from dcompile.estimate.least import least_of
from dcompile.facts.resolve import Facts
from dcompile.plan.auto.bounds import bounds_of
from dcompile.plan.auto.candidates import PLACED, Candidate, candidates
from dcompile.plan.auto.judge import Judged, Judging
from dcompile.plan.auto.rank import ALIKE, rank, standing
from dcompile.recipe.model import Parallel, Recipe
from dcompile.rules.catalog import RULES, run_rules
from dcompile.rules.rule import subject_of

ROUNDING = 1e-9
"""By how much sums of seconds may differ that are added in another order."""


def winner(recipe: Recipe, facts: Facts) -> Judged | None:
    """The plan of `choose(recipe, facts)`; None where it chooses none.

    Groups of candidates go by the least that any of theirs can take. Once a plan is found that the rules do not warn of
    and that is no last resort, only what may take as long as the fastest of these can still win.
    """
    bounds, _ = bounds_of(recipe)
    if bounds is None or has_errors(
        run_rules(RULES, subject_of(recipe.model_copy(update={"parallel": Parallel()}), facts))
    ):
        return None
    groups = list(candidates(recipe, facts, bounds, facts.devices.total or 1))
    least = least_of(recipe, facts)
    seconds = {at: least.seconds(*_sharing(group[0])) if least is not None else 0.0 for at, group in enumerate(groups)}
    judging = Judging(recipe, facts, bounds.may_offload)
    judged: list[Judged] = []
    limit = float("inf")
    for at in sorted(seconds, key=lambda at: (seconds[at], at)):
        if seconds[at] > limit:
            break
        for one in judging.of(groups[at]):
            judged.append(one)
            if least is not None and one.checked is not None and standing(one) == (False, False):
                limit = min(limit, one.time * (1 + ALIKE) * (1 + ROUNDING))
    ranked = rank(judged)
    return ranked[0] if ranked else None


def _sharing(candidate: Candidate) -> tuple[int, int]:
    """Devices that can do parts of a step at the same time, and replicas."""
    return 1 if candidate.kind in PLACED else candidate.devices // candidate.data, candidate.data
