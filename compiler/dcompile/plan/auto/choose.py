"""`parallel: auto` to the one plan that an expert would choose, with its reason; or to why there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from dcompile.core.diagnostics import Diagnostic, Path, Severity, has_errors
from dcompile.core.flow import flow
from dcompile.facts.resolve import Facts
from dcompile.layout.chosen import say_section
from dcompile.plan.auto.bounds import Bounds, bounds_of
from dcompile.plan.auto.candidates import candidates
from dcompile.plan.auto.judge import Judged, judge_all, told
from dcompile.plan.auto.no_fit import no_fit
from dcompile.plan.auto.rank import rank, runners_up
from dcompile.plan.auto.reasons import because, idle, lost
from dcompile.plan.types import Decision
from dcompile.recipe.model import Devices, Parallel, Recipe
from dcompile.rules.catalog import JOB_RULES, RULES, run_rules
from dcompile.rules.check import CheckedRecipe
from dcompile.rules.rule import subject_of

RUNNERS_UP = 2


@dataclass(frozen=True)
class Choice:
    """What was chosen and what it was chosen from.

    Attributes:
        winner, others: the plan, and the runners-up, each of another strategy where there is one.
        judged: every candidate, in the order in which they are tried.
        decisions: what `plan.json` says about the choice.
    """

    winner: Judged
    others: tuple[Judged, ...]
    judged: tuple[Judged, ...]
    decisions: tuple[Decision, ...]

    @property
    def checked(self) -> CheckedRecipe:
        """The recipe with the plan that was chosen."""
        assert self.winner.checked is not None
        return self.winner.checked


def choose(
    recipe: Recipe, facts: Facts, is_ignored: Callable[[Diagnostic], bool], look_further: bool = True
) -> tuple[Choice | None, tuple[Diagnostic, ...]]:
    """Choose a plan for a recipe that asks for `auto`.

    Args:
        recipe, facts: the job.
        is_ignored: whether the recipe says that it accepts a finding; asked of those about the plan that was chosen.
        look_further: whether to say what would make a plan fit, where none does.

    Emits: DC490 and DC491 for bounds, DC590 where no legal plan fits, and what the rules find whatever the plan is.
    """
    bounds, found = bounds_of(recipe)
    if bounds is None:
        return None, found
    # What is wrong under no split at all is wrong under any, and is said once.
    found = run_rules(RULES, subject_of(recipe.model_copy(update={"parallel": Parallel()}), facts))
    if has_errors(found):
        return None, found
    total = facts.devices.total or 1
    judged = tuple(judge_all(recipe, facts, candidates(recipe, facts, bounds, total), may_offload=bounds.may_offload))
    ranked = rank(judged)
    if not ranked:
        return None, _none(recipe, facts, bounds, judged) if look_further else ()
    winner, others = ranked[0], tuple(runners_up(ranked, RUNNERS_UP))
    decision = Decision(
        what="parallel",
        chosen=winner.candidate.text,
        because=because(winner, judged, facts),
        alternatives=tuple(f"{one.candidate.text}: {lost(one, winner)}" for one in others),
    )
    decisions = (decision, *idle(winner, judged, total), *_chosen_devices(recipe, winner, ranked))
    found = findings(recipe, facts, winner)
    return Choice(winner, others, judged, decisions), tuple(one for one in found if not is_ignored(one))


def findings(recipe: Recipe, facts: Facts, winner: Judged) -> tuple[Diagnostic, ...]:
    """What the rules find in a job whose plan was chosen."""
    found = run_rules(JOB_RULES, subject_of(recipe, facts)) + told(winner)
    # Advice about a plan that nobody wrote is no advice: the reason says why it was chosen.
    return tuple(one for one in found if one.severity is not Severity.ADVICE or one.path[:1] != ("parallel",))


def _chosen_devices(recipe: Recipe, winner: Judged, ranked: Sequence[Judged]) -> Iterator[Decision]:
    """Which devices of a mixed box the plan is for, where they are not the first that the recipe lists."""
    numbers, ids, section = winner.candidate.numbers, winner.candidate.ids, recipe.devices
    if numbers is None or ids is None or not isinstance(section, Devices):
        return
    why = f"a recipe that names this plan has `{say_section(section, numbers)}` under `devices`"
    first = next((one for one in ranked if one.candidate.numbers is None), None)
    if first is not None:
        why = f"of the devices as they are listed the best is `{first.candidate.text}`: {lost(first, winner)}; {why}"
    yield Decision("devices.ids", flow(ids), why)


def _none(recipe: Recipe, facts: Facts, bounds: Bounds, judged: tuple[Judged, ...]) -> tuple[Diagnostic, ...]:
    """Why there is no plan: none fits, or none within the bounds is legal."""
    if any(one.is_too_large for one in judged):
        return (no_fit(recipe, facts, bounds, judged),)
    if not judged:
        total = facts.devices.total or 1
        message = f"no plan for {total} devices keeps to what `auto` fixes and forbids"
        hint = "fix degrees whose product is at most the number of devices, or forbid less"
        return (Diagnostic("DC490", Severity.ERROR, message, hint, ("parallel", "auto")),)
    # A plan that cannot run for a reason of its own: that of the simplest one, said of the bound that asks for it.
    first = min(judged, key=lambda one: one.candidate.simplicity)
    return tuple(
        replace(one, path=_in_bounds(one.path, bounds)) for one in told(first) if one.severity is Severity.ERROR
    )


def _in_bounds(path: Path, bounds: Bounds) -> Path:
    """The path of a finding about a key of `parallel` that a bound fixes."""
    if len(path) > 1 and path[0] == "parallel" and path[1] in bounds.fixed.model_fields_set:
        return ("parallel", "auto", "fixed", *path[1:])
    return path
