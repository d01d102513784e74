"""No legal plan fits: the smallest change of each kind that makes one fit, each of them computed.

Where no single change does, pairs of them are looked for; where one does that asks for another machine or another
picture, a pair that asks for neither. The search judges a bounded number of plans, so that a large
cluster gets its answer as fast as a small box.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations

from dcompile.core.diagnostics import Diagnostic, Severity
from dcompile.core.units import format_bytes
from dcompile.facts.resolve import Facts
from dcompile.memory.fit import exceeds, is_nearly_full
from dcompile.plan.auto.bounds import Bounds
from dcompile.plan.auto.candidates import Candidate, candidates
from dcompile.plan.auto.judge import Judged, fullest_where_it_fits, tried, with_offload
from dcompile.plan.auto.ladders import Job, Ladder, Step, ladders, mild_ladders
from dcompile.plan.auto.reasons import fullness
from dcompile.recipe.model import Recipe
from dcompile.rules.rule import Subject

MOST_JUDGED = 10_000
"""Plans that are judged in search of a change: about three seconds of one core."""
MOST_PAIRS = 3
NOTHING = "use larger devices, or a smaller model"


def no_fit(recipe: Recipe, facts: Facts, bounds: Bounds, judged: tuple[Judged, ...]) -> Diagnostic:
    """The one diagnostic of a job for which `auto` finds no plan that fits."""
    legal = [one for one in judged if one.is_too_large]
    nearest = min(legal, key=_missing)
    load = nearest.load
    assert load is not None
    parts = {f"`{name}`": size for name, size in load.components.items()}
    parts[f"activations of `{load.peak}`"] = load.activation_bytes
    size, largest = max((size, name) for name, size in parts.items())
    message = (
        f"none of {len(legal)} legal plans fits: the nearest, `{nearest.candidate.text}`, needs {fullness(load)} on "
        f"device {load.device}, {format_bytes(size)} of it {largest}"
    )
    both = _both(facts, legal)
    job = Job(recipe, facts)
    search = _Search(job, bounds)
    single = dict(search.single_changes(ladders(job)))
    found = [*single.values()] or [*search.pairs(ladders(job), MOST_PAIRS)]
    mild = mild_ladders(job)
    if single and single.keys().isdisjoint(ladder[0].text for ladder in mild):
        found += search.pairs(mild, 1)
    found = [*search.without_forbidding_offload(), *found]
    hint = "; ".join([*([both] if both else []), *found, *_may_fit(legal)]) or NOTHING
    return Diagnostic("DC590", Severity.ERROR, message, hint, ("parallel",))


def _may_fit(legal: list[Judged]) -> Iterator[str]:
    """The nearest plan that fits if its activations are as far below their estimate as they may be."""
    inside = [one for one in legal if not any(exceeds(load) for load in one.subject.loads)]
    if inside:
        text = min(inside, key=_missing).candidate.text
        yield f"`{text}` is within the estimate's margin: written under `parallel` it is tried, with a warning"


def _missing(one: Judged) -> tuple[int, int]:
    assert one.load is not None
    return one.load.need_bytes - (one.load.room_bytes or 0), one.candidate.simplicity


def _both(facts: Facts, legal: list[Judged]) -> str:
    """Where weights fit under `tensor` alone and activations under `context` alone: that the two cannot be joined."""
    room = {
        kind: [one.load for one in legal if one.load is not None and one.candidate.kind in kinds]
        for kind, kinds in (("tensor", ("tensor",)), ("context", ("ulysses", "unified", "ring")))
    }
    weights = any(load.weight_bytes <= (load.room_bytes or 0) for load in room["tensor"])
    activations = any(load.weight_bytes > (load.room_bytes or 0) for load in room["context"])
    if weights and activations:
        name = facts.model.denoisers[0]
        return f"diffusers cannot split `{name}` by `tensor` and by `context` at once (DC404)"
    return ""


@dataclass
class _Search:
    """Looks for changes of a job; `judged` counts the plans that it has judged.

    A plan may fill a device nearly to the brim, which the rules warn of, where a whole ladder gives none that does not.
    """

    job: Job
    bounds: Bounds
    judged: int = field(default=0)
    may_be_tight: bool = field(default=False)

    def plan(self, job: Job) -> str | None:
        """A plan that fits, the simplest of those with the fewest devices, with what its fullest device has; one that
        offloads where no other fits. None where there is none, or where the search has to end.

        One replica is tried, unless the recipe fixes more: a device of one holds what a device of several does.
        """
        bounds = self.bounds
        if bounds.fixed.data is None:
            bounds = replace(bounds, fixed=bounds.fixed.model_copy(update={"data": 1}))
        offloaded: str | None = None
        for group in candidates(job.recipe, job.facts, bounds, job.total):
            for candidate in sorted(group, key=lambda one: one.simplicity):
                if self.judged >= MOST_JUDGED:
                    return offloaded
                subject = tried(job.recipe, job.facts, candidate)
                found = self._where_it_fits(candidate, subject)
                if found is not None:
                    return found
                if offloaded is None and bounds.may_offload:
                    other = with_offload(candidate, subject)
                    if other is not None:
                        offloaded = self._where_it_fits(other, tried(job.recipe, job.facts, other))
        return offloaded

    def _where_it_fits(self, candidate: Candidate, subject: Subject) -> str | None:
        self.judged += 1
        load = fullest_where_it_fits(subject)
        if load is None or (is_nearly_full(load) and not self.may_be_tight):
            return None
        return f"`{candidate.text}` ({fullness(load)}{', nearly full' if is_nearly_full(load) else ''})"

    def without_forbidding_offload(self) -> Iterator[str]:
        """The plan that `auto` would choose if it might offload."""
        if self.bounds.may_offload:
            return
        free = replace(self.bounds, forbid=self.bounds.forbid - {"offload"})
        plan = _Search(self.job, free, may_be_tight=True).plan(self.job)
        if plan is not None:
            yield f"without `forbid: [offload]` it fits as {plan}"

    def first(self, ladder: Ladder, base: Job) -> tuple[Step, str] | None:
        """The smallest step of a ladder that makes a plan fit, by halves, and that plan."""
        for self.may_be_tight in (False, True):
            last = self.plan(ladder[-1].apply(base))
            if last is None:
                continue
            low, high, found = 0, len(ladder) - 1, last
            while low < high:
                middle = (low + high) // 2
                plan = self.plan(ladder[middle].apply(base))
                if plan is None:
                    low = middle + 1
                else:
                    high, found = middle, plan
            return ladder[high], found
        return None

    def single_changes(self, kinds: tuple[Ladder, ...]) -> Iterator[tuple[str, str]]:
        """The smallest change of each kind that makes a plan fit, by the first step of its ladder."""
        for ladder in kinds:
            found = self.first(ladder, self.job)
            if found is not None:
                step, plan = found
                yield ladder[0].text, f"{step.text} {'fit' if step.are_many else 'fits'} as {plan}"

    def pairs(self, kinds: tuple[Ladder, ...], most: int) -> Iterator[str]:
        """At most so many pairs of changes, those of the job before those of the machine; of each the smallest first
        step, and with it the smallest second."""
        count = 0
        for one, other in combinations(reversed(kinds), 2):
            if count == most or self.judged >= MOST_JUDGED:
                return
            first = self.first(tuple(_then(step, other[-1].apply) for step in one), self.job)
            if first is None:
                continue
            with_first = next(step for step in one if step.text == first[0].text).apply(self.job)
            second = self.first(other, with_first)
            if second is not None:
                count += 1
                yield f"{first[0].text} and {second[0].text} together fit as {second[1]}"


def _then(step: Step, apply: Callable[[Job], Job]) -> Step:
    """A step with another change after it."""
    return replace(step, apply=lambda job: apply(step.apply(job)))
