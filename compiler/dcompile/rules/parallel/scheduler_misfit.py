"""The pipeline cannot use the scheduler, or would use it wrongly.

What it checks: what the pipeline's code asks of its scheduler (attributes, arguments of `set_timesteps` and `step`)
against the class with its settings; and whether the class follows what the model predicts, a flow or noise.

Why it matters: a missing argument fails after every weight was loaded; a scheduler for noise on a flow model runs, and
draws noise or grey without a word.

Example: `model: {id: black-forest-labs/FLUX.1-dev, scheduler: {class: DDIMScheduler}}`

Use instead: `class: FlowMatchLCMScheduler`, or `UniPCMultistepScheduler` with its flow settings

Source: diffusers 0.42.1, `pipeline_flux.py:836` (`retrieve_timesteps`), `pipeline_wan.py:554`; each scheduler was run
on an exact flow, and on each combination of arguments.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from dcompile.core.diagnostics import Diagnostic
from dcompile.facts.schedulers import (
    Needs,
    SchedulerFacts,
    effective_settings,
    known_schedulers,
    pipeline_needs,
    scheduler_facts,
)
from dcompile.facts.types import ModelFacts
from dcompile.rules.rule import Rule, Subject, error

_SCHEDULES = ("sigmas", "timesteps")
_STEP_BACK = ("AceStepPipeline", "BriaFiboPipeline", "BriaFiboEditPipeline")
"""Pipelines that make `sigmas` themselves only where no `timesteps` are given (`pipeline_bria_fibo.py:625`)."""
FEW = 4
"""Steps that every class can run."""
MOST_NAMED = 5
"""Classes that a hint names, those of a similar name first."""


def check(subject: Subject) -> Iterator[Diagnostic]:
    own, model = subject.recipe.model.scheduler, subject.facts.model
    asked = [name for name in _SCHEDULES if subject.recipe.run.args.get(name) is not None]
    # A known model's own scheduler fits its own pipeline, which `tests/unit/test_scheduler.py` sees to.
    recipe = subject.recipe
    is_elsewhere = recipe.model.pipeline is not None or recipe.run.task is not None or recipe.model.path is not None
    if own is None and not asked and not is_elsewhere and subject.settings.steps >= FEW:
        return
    if own is not None and own.class_ is not None and own.class_ not in known_schedulers():
        return  # DC440 is the cause
    name = str((own.class_ if own is not None else None) or model.scheduler.get("class", ""))
    given = (own.model_extra or {}) if own is not None else {}
    needs = pipeline_needs(model.pipeline, name)
    reason = misfit(name, model, given)
    if reason is None and needs is not None:
        for switch, names in needs.attributes_with.items():
            if subject.recipe.run.args.get(switch):
                yield from _switched(subject, name, switch, names)
    if reason is None:
        yield from _few_steps(subject, name, given)
        yield from _schedules(subject, name, given, asked)
        return
    hint = _hint(name, model, given)
    if own is None:
        asks = subject.given("model", "pipeline") if recipe.model.pipeline is not None else subject.given("run", "task")
        path = asks if len(asks) > 1 else subject.given("model", "path")
        message = f"{model.pipeline} cannot use the model's own {name}: {reason}"
        yield error("DC442", message, f"under `scheduler` of `model`, {hint}", path)
        return
    path = ("model", "scheduler", "class" if own.class_ is not None else next(iter(given), ""))
    yield error("DC442", f"{model.pipeline} cannot use {name}: {reason}", hint, path)


def _switched(subject: Subject, name: str, switch: str, attributes: list[str]) -> Iterator[Diagnostic]:
    """What an argument of the call has the pipeline read of its scheduler."""
    model, facts = subject.facts.model, scheduler_facts(name)
    missing = [attribute for attribute in attributes if facts is not None and attribute not in facts.attributes]
    if missing:
        own = model.scheduler.get("class")
        message = f"`{switch}` needs the scheduler's `{missing[0]}`, which {name} does not have"
        hint = f"use {own}, the model's own, or leave `{switch}` out"
        yield error("DC442", message, hint, ("run", "args", switch))


def _few_steps(subject: Subject, name: str, given: dict[str, Any]) -> Iterator[Diagnostic]:
    """A class that needs several steps to begin."""
    facts = scheduler_facts(name)
    if facts is None or subject.settings.steps >= facts.least_steps:
        return
    settings = effective_settings(facts, subject.facts.model, given)
    if any(settings.get(key) == value for key, value in facts.fewer_with.items()):
        return
    other = "".join(f", or set `{key}: {_text(value)}`" for key, value in facts.fewer_with.items())
    message = f"{name} cannot run {subject.settings.steps} steps"
    yield error("DC442", message, f"use {facts.least_steps} or more{other}", subject.given("run", "steps"))


def _schedules(subject: Subject, name: str, given: dict[str, Any], asked: list[str]) -> Iterator[Diagnostic]:
    """`sigmas` and `timesteps` of the call, which not every class takes."""
    model = subject.facts.model
    facts, needs = scheduler_facts(name), pipeline_needs(model.pipeline, name)
    if facts is None or needs is None:
        return
    settings = effective_settings(facts, model, given)
    makes_sigmas = "sigmas" in needs.set_timesteps and model.pipeline not in _STEP_BACK
    if "timesteps" in asked and (makes_sigmas or len(asked) > 1):
        whose = f"{model.pipeline} makes `sigmas` itself" if makes_sigmas else "`sigmas` are given too"
        message = f"`timesteps` cannot be given: {whose}, and diffusers takes one of the two"
        yield error("DC442", message, "leave it out: `steps` makes the schedule", ("run", "args", "timesteps"))
        return
    for key in asked:
        own = replace(
            needs, set_timesteps=sorted({*needs.set_timesteps, key} - ({"sigmas"} if key == "timesteps" else set()))
        )
        reason = _refused(facts, own, settings, as_list=key == "sigmas")
        switch = next((name for name in facts.without_timesteps if settings.get(name)), None)
        if key not in facts.set_timesteps:
            reason = f"its `set_timesteps` takes no `{key}`"
        elif key == "timesteps" and switch is not None:
            reason = f"its `set_timesteps` takes none with `{switch}: true`"
        if reason is not None and key in model.call_args:
            message = f"`{key}` cannot be given to {name}: {reason}"
            yield error("DC442", message, "leave it out: `steps` makes the schedule", ("run", "args", key))


def misfit(name: str, model: ModelFacts, given: dict[str, Any]) -> str | None:
    """Why a pipeline cannot use a scheduler class with the given settings; None where it can, or nobody knows."""
    facts, needs = scheduler_facts(name), pipeline_needs(model.pipeline, name)
    if facts is None or needs is None:
        return None
    settings = effective_settings(facts, model, given)
    missing = None if name == model.scheduler.get("class") else _missing(facts, needs)
    return missing or _refused(facts, needs, settings) or _misread(facts, model, settings)


def _missing(facts: SchedulerFacts, needs: Needs) -> str | None:
    """What the pipeline's code uses and the class does not have."""
    for name in needs.attributes:
        if name not in facts.attributes:
            return f"the pipeline needs its `{name}`, which it does not have"
    for method, passed, taken in (
        ("step", needs.step, facts.step),
        ("set_timesteps", sorted(set(needs.set_timesteps) - {"mu", "sigmas"}), facts.set_timesteps),
    ):
        for name in passed:
            if name not in taken and "kwargs" not in taken:
                return f"the pipeline gives `{name}` to its `{method}`, which does not take it"
    if facts.step_required > needs.step_arguments + len(needs.step):
        return "its `step` needs more than the pipeline gives"
    return None


def _refused(facts: SchedulerFacts, needs: Needs, settings: dict[str, Any], as_list: bool = False) -> str | None:
    """What `set_timesteps` would refuse; `as_list` of the `sigmas` that a recipe gives."""
    passed = {"mu", "sigmas"} & set(needs.set_timesteps)
    if needs.flow_guard and settings.get("use_flow_sigmas"):
        passed -= {"sigmas"}
    if needs.mu_guard and settings.get("use_dynamic_shifting"):
        passed |= {"mu"}
    if not facts.accepts:
        return None
    given = " ".join(sorted(passed))
    legal = facts.accepts.get(given, [])
    if as_list and given in facts.accepts_list and not (legal := facts.accepts_list[given]):
        return "it reckons with `sigmas` as an array, and fails with a list"
    if any(all(settings.get(key) == value for key, value in case.items()) for case in legal):
        return None
    names = " and ".join(f"`{name}`" for name in sorted(passed)) or "a call without `mu`"
    legal = legal or ([] if passed else facts.accepts[min(facts.accepts)])
    wrong = min(
        ([key for key, value in case.items() if settings.get(key) != value] for case in legal), key=len, default=[]
    )
    if wrong:
        values = " and ".join(f"`{key}: {_text(settings.get(key))}`" for key in wrong)
        return f"its `set_timesteps` refuses {names} with {values}"
    return f"the pipeline gives {names} to its `set_timesteps`, which does not take them"


def _misread(facts: SchedulerFacts, model: ModelFacts, settings: dict[str, Any]) -> str | None:
    """Where the class would take what the model predicts for something else."""
    kind = settings.get("prediction_type")
    if kind is not None and kind not in facts.choices.get("prediction_type", [kind]):
        return f"the model's `prediction_type` is `{kind}`, which it does not know"
    published = scheduler_facts(str(model.scheduler.get("class", "")))
    if published is None:
        return None
    if published.follows_flow(effective_settings(published, model, {})):
        if not facts.follows_flow(settings):
            return f"the model predicts a flow, and it would take that for `{kind or 'epsilon'}`"
    elif published.denoises and not facts.denoises:
        return "the model predicts noise, and its steps do not follow a schedule of noise"
    return None


def _hint(name: str, model: ModelFacts, given: dict[str, Any]) -> str:
    """Settings with which the class fits, else classes that do."""
    facts = scheduler_facts(name)
    if facts is not None:
        now = effective_settings(facts, model, given)
        for flow in facts.flow:
            for more in ({}, {"use_dynamic_shifting": True}, {"use_dynamic_shifting": False}):
                added = {key: value for key, value in {**flow, **more}.items() if now.get(key) != value}
                if added and set(added) <= set(now) and misfit(name, model, {**given, **added}) is None:
                    return f"set {', '.join(f'`{key}: {_text(value)}`' for key, value in added.items())}"
    fitting = fitting_schedulers(model)
    close = difflib.get_close_matches(name, fitting, n=MOST_NAMED, cutoff=0)
    return f"use {_any(close)}" if close else "leave it out"


def fitting_schedulers(model: ModelFacts) -> list[str]:
    """The classes that the pipeline can use with the model's own settings, sorted."""
    return [name for name in known_schedulers() if misfit(name, model, {}) is None]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _any(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


RULE = Rule("DC442", check)
