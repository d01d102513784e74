"""A stochastic scheduler with more than one picture in a call.

What it checks: `run.batch` with a scheduler that draws noise at each step.

Why it matters: the noise comes from the global generator, so a picture would depend on its neighbours in the batch.

Example: `model: {scheduler: {class: EulerAncestralDiscreteScheduler}}` with `batch: 4`

Use instead: `batch: 1`

Source: diffusers 0.42.1, `pipeline_flux.py:933` (rules.md RNG-03).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    if subject.recipe.run.batch == 1:
        return
    own = subject.recipe.model.scheduler
    name = own.class_ if own is not None and own.class_ else str(subject.facts.model.scheduler.get("class", ""))
    settings = {**subject.facts.model.scheduler, **(own.model_extra or {} if own is not None else {})}
    is_sde = str(settings.get("algorithm_type", "")).startswith("sde")
    if any(part in name for part in STOCHASTIC) or settings.get("stochastic_sampling") or is_sde:
        message = f"{name} draws noise at each step, so pictures of one call would depend on each other"
        yield error("DC414", message, "use `batch: 1`", ("run", "batch"))


STOCHASTIC = ("Ancestral", "LCM", "TCD", "SCM", "SDE", "DDPM", "SASolver")
"""Parts of the names of schedulers that draw from the global generator (rules.md RNG-03)."""


RULE = Rule("DC414", check)
