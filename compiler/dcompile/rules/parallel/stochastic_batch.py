"""Pictures of one call would depend on each other.

What it checks: `run.batch` with a scheduler that draws noise at each step, in a pipeline that does not hand the
generators of its call to it (FLUX; SDXL, Sana and PixArt do); with sampled prompt rewriting; and with a pipeline that
pads the texts of a call to the longest and has its denoiser see the padding.

Why it matters: the noise comes from the global generator then, Kandinsky 5 and CogView 4 mask nothing, and Qwen-Image
2.1 places the picture behind the longest text, so a picture would depend on its neighbours in the batch.

Example: `model: {id: black-forest-labs/FLUX.1-dev, scheduler: {stochastic_sampling: true}}` with `batch: 4`

Use instead: `batch: 1`

Source: diffusers 0.42.1, `pipeline_flux.py:933`, `pipeline_flux2.py:553`, `pipeline_kandinsky.py:367`,
`pipeline_cogview4.py:193`, `transformer_qwenimage21.py:690`; each scheduler was run twice with different global
generators, and two pictures at once with a generator each (rows RNG-03, RNG-06); what each pipeline hands on is read
from its source.
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.facts.schedulers import effective_settings, missing_libraries, pipeline_needs, scheduler_facts
from dcompile.layout.attention import texts_differ
from dcompile.rules.rule import Rule, Subject, error

REWRITING = "caption_upsample_temperature"
"""The argument of Flux2's call with which the text encoder rewrites the prompt, by sampling."""

SEES_PADDING = ("cogview4", "kandinsky5", "qwenimage21")
"""Families whose encoder and denoiser attend to the padding of a shorter text, or, as Qwen-Image 2.1, count positions
from behind it. Equal texts of a call need none; how long others are, no rule can count."""


def check(subject: Subject) -> Iterator[Diagnostic]:
    # The first replica has the most pictures; where it has one, no call has two.
    if subject.recipe.run.batch == 1 or len(subject.facts.rows) <= subject.splits.data:
        return
    own = subject.recipe.model.scheduler
    name = own.class_ if own is not None and own.class_ else str(subject.facts.model.scheduler.get("class", ""))
    if _shares_noise(subject, name):
        message = f"{name} draws noise at each step, so pictures of one call would depend on each other"
        yield error("DC414", message, "use `batch: 1`", ("run", "batch"))
    elif subject.recipe.run.args.get(REWRITING) is not None:
        message = f"`{REWRITING}` samples new prompts, so pictures of one call would depend on each other"
        yield error("DC414", message, "use `batch: 1`", ("run", "batch"))
    elif subject.facts.model.family in SEES_PADDING and texts_differ(subject.facts):
        message = f"{subject.facts.model.pipeline} has a shorter text seen with its padding, so pictures of one call"
        yield error("DC414", f"{message} would depend on each other", "use `batch: 1`", ("run", "batch"))


def _shares_noise(subject: Subject, name: str) -> bool:
    facts, own, model = scheduler_facts(name), subject.recipe.model.scheduler, subject.facts.model
    if facts is None:
        return "torchsde" in missing_libraries(name, {})  # that library's random process
    given = (own.model_extra or {}) if own is not None else {}
    return facts.shares_noise(effective_settings(facts, model, given), pipeline_needs(model.pipeline, name))


RULE = Rule("DC414", check)
