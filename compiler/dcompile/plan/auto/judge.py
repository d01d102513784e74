"""What becomes of a candidate: the rules judge it, then the estimate says how long it takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from math import ceil, inf
from typing import Any

from dcompile.core.diagnostics import Diagnostic, Severity, has_errors
from dcompile.estimate.job import estimate, pipeline_calls
from dcompile.facts.resolve import Facts
from dcompile.layout.chosen import devices_of, section_of
from dcompile.memory.alternatives import tightest
from dcompile.memory.fit import DeviceLoad, is_nearly_full
from dcompile.memory.host import host_memory_bytes, host_need
from dcompile.memory.offloading import least_offload, offloaded_plan
from dcompile.plan.auto.boxes import is_mixed
from dcompile.plan.auto.candidates import PLACED, Candidate, Group
from dcompile.recipe.model import Devices, Recipe
from dcompile.rules.catalog import JOB_RULES, RULES, run_rules
from dcompile.rules.check import CheckedRecipe, check
from dcompile.rules.rule import Subject, subject_of

PLAN_RULES = tuple(rule for rule in RULES if rule not in JOB_RULES)
"""Rules whose findings depend on the plan."""

COPY_DOUBT = 2.0
"""How often copies of what is offloaded count where plans are put in order: their rate is a nominal one, so a plan that
offloads has to win even where they take twice as long (ADR 14)."""
HOST_SHARE = 2
"""What a host has at least of the memory of its devices where the recipe does not say: Google's g2-standard-96 has 384
GB beside 8 cards of 24, a2-highgpu-8g 680 beside 320, AWS's p5.48xlarge 2048 beside 640 (their own pages)."""


@dataclass(frozen=True)
class Judged:
    """A candidate and its verdict.

    Attributes:
        subject: the recipe with this plan.
        checked: the same, where every rule accepts it.
        diagnostics: what the rules found.
        load: the fullest device; None where the plan is not legal, or where devices have no known memory.
        seconds: estimated work of the job, without loading; None where the hardware's speed is not known.
        step_seconds: of it one step.
        offload_seconds: of each call the copies of what is offloaded; None where nothing is.
        calls: of the pipeline, one after the other.
        host_bytes: memory of a host that a plan which offloads takes.
        has_room_on_host: False where that is more than a host can be taken to have; the recipe's own is for the rules.
        work: what a rank does of the job's work, at most 1: stands for time where that is not known.
    """

    candidate: Candidate
    subject: Subject
    checked: CheckedRecipe | None
    diagnostics: tuple[Diagnostic, ...]
    load: DeviceLoad | None = None
    seconds: float | None = None
    step_seconds: float | None = None
    offload_seconds: float | None = None
    calls: int = 1
    host_bytes: int = 0
    has_room_on_host: bool = True
    work: float = 1.0

    @property
    def warns(self) -> bool:
        """Whether the rules have a warning about it: it may be too full, or not do what it seems to."""
        return any(found.severity is Severity.WARNING for found in self.diagnostics)

    @property
    def is_too_large(self) -> bool:
        """Whether it is legal and does not fit."""
        return self.checked is None and self.load is not None

    @property
    def time(self) -> float:
        """What plans are ordered by: seconds, with copies from the host counted for what they may take; or else the
        share of the work."""
        if self.seconds is None:
            return self.work
        return self.seconds + (COPY_DOUBT - 1) * self.calls * (self.offload_seconds or 0.0)

    @property
    def is_last_resort(self) -> bool:
        """Whether it offloads, and nobody can say what that takes or whether the host has room."""
        return self.candidate.offloads > 0 and (self.seconds is None or not self.has_room_on_host)


def tried(recipe: Recipe, facts: Facts, candidate: Candidate) -> Subject:
    """The job with a candidate's plan, on the devices that it is for."""
    changed: dict[str, Any] = {"parallel": candidate.parallel}
    if candidate.numbers is not None and isinstance(recipe.devices, Devices):
        changed["devices"] = section_of(recipe.devices, candidate.numbers)
        facts = replace(facts, devices=devices_of(facts.devices, candidate.numbers))
    return subject_of(recipe.model_copy(update=changed), facts, is_candidate=True)


def judge(recipe: Recipe, facts: Facts, candidate: Candidate, subject: Subject | None = None) -> Judged:
    """Judge one candidate; `subject` is the job with its plan, where that is there already."""
    subject = subject or tried(recipe, facts, candidate)
    loads = subject.loads
    fullest = tightest(loads) if all(load.room_bytes is not None for load in loads) else None
    # A plan that somebody names may need the margin of the estimate, with a warning; one that is chosen may not.
    if any(load.room_bytes is not None and load.need_bytes > load.room_bytes for load in loads):
        found = run_rules(PLAN_RULES, subject)
        return Judged(candidate, subject, None, found, None if has_errors(found) else fullest)
    checked, found = check(subject, known=JOB_RULES)
    # That devices are idle is the choice's own decision.
    found = tuple(one for one in found if one.code != "DC408")
    if checked is None:
        return Judged(candidate, subject, None, found)
    placement = subject.owned.placement
    timed = estimate(subject.recipe, subject.facts, subject.splits, placement)
    parts = candidate.devices // candidate.data if candidate.kind not in PLACED else 1
    rows = max(1, len(facts.rows))
    need = host_need(subject.recipe, subject.facts, subject.splits, placement) if candidate.offloads else None
    host_bytes = need.ranks * need.own_bytes if need is not None else 0
    return Judged(
        candidate=candidate,
        subject=subject,
        checked=checked,
        diagnostics=found,
        load=fullest,
        seconds=timed["total_seconds"] - timed["load_seconds"] if timed else None,
        step_seconds=timed["step_seconds"] if timed else None,
        offload_seconds=timed.get("offload_seconds"),
        calls=pipeline_calls(subject.recipe, facts, candidate.data),
        host_bytes=host_bytes,
        has_room_on_host=host_memory_bytes(recipe) is not None or host_bytes <= _usual_host_bytes(facts),
        work=ceil(rows / candidate.data) / rows / parts,
    )


def _usual_host_bytes(facts: Facts) -> float:
    """What a host is taken to have where the recipe does not say; anything where its devices' memory is not known."""
    sizes = [facts.devices.memory_bytes(device) for device in range(facts.devices.per_node or 1)]
    known = [size for size in sizes if size is not None]
    return HOST_SHARE * sum(known) if len(known) == len(sizes) else inf


def fullest_where_it_fits(subject: Subject) -> DeviceLoad | None:
    """The fullest device of a plan (`tried`) that is legal and fits; None of any other.

    A verdict as that of `judge`, for a plan that is proposed to somebody: the estimate's own margin does not help it.
    """
    fullest = tightest(subject.loads)
    if fullest.need_bytes > (fullest.room_bytes or 0) or check(subject, known=JOB_RULES)[0] is None:
        return None
    return fullest


def told(one: Judged) -> tuple[Diagnostic, ...]:
    """What the rules find in a plan that somebody reads about: with what they propose."""
    if not one.diagnostics:
        return ()
    _, found = check(replace(one.subject, is_candidate=False), known=JOB_RULES)
    codes = {item.code for item in one.diagnostics}
    return tuple(item for item in found if item.code in codes)


def with_offload(candidate: Candidate, subject: Subject) -> Candidate | None:
    """A plan that lacks room, with the components offloaded that give it room; None where none do."""
    owned = subject.owned
    names = least_offload(subject.recipe, subject.facts, subject.splits, may_be_tight=True, owned=owned)
    return replace(candidate, parallel=offloaded_plan(candidate.parallel, names)) if names else None


@dataclass
class Judging:
    """Judges groups, one after the other.

    Placing components on more devices never makes a step shorter: once it fits on some, more are not tried.
    """

    recipe: Recipe
    facts: Facts
    may_offload: bool
    _placed: dict[tuple[str, int], int] = field(default_factory=dict)

    def of(self, group: Group) -> Iterator[Judged]:
        """Of a group the first legal candidate, else the first; of one without room to spare, one that offloads too."""
        recipe, facts = self.recipe, self.facts
        what, devices = (group[0].kind, group[0].data), group[0].devices
        if self._placed.get(what, devices) < devices:
            return
        first = tried(recipe, facts, group[0])
        if group[0].kind == "cut" and not all(first.owned.held):
            return  # a device would hold nothing: the same is a plan for fewer
        judged = [judge(recipe, facts, group[0], first)]
        while judged[-1].checked is None and not judged[-1].is_too_large and len(judged) < len(group):
            judged.append(judge(recipe, facts, group[len(judged)]))
        best = next((one for one in judged if one.checked is not None or one.is_too_large), judged[0])
        if group[0].kind in PLACED and best.checked is not None and not best.warns and not is_mixed(facts):
            self._placed.setdefault(what, devices)
        yield best
        is_tight = best.checked is not None and any(is_nearly_full(load) for load in best.subject.loads)
        lacks_room = best.is_too_large or is_tight
        offloaded = with_offload(best.candidate, best.subject) if lacks_room and self.may_offload else None
        if offloaded is not None:
            yield judge(recipe, facts, offloaded)


def judge_all(recipe: Recipe, facts: Facts, groups: Iterable[Group], *, may_offload: bool) -> Iterator[Judged]:
    """What becomes of every group."""
    judging = Judging(recipe, facts, may_offload)
    for group in groups:
        yield from judging.of(group)
