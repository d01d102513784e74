"""A distilled model is run with many steps, with too few, or with a second branch.

What it checks: the steps of a model that was distilled to need few, and whether the call scales two branches, against
what its authors publish it with. A recipe that leaves them out gets the pipeline's defaults, which are those of the
model that it was distilled from.

Why it matters: a picture costs many times as much and gets no better, or worse: such a model has the guidance in its
weights, and draws garish pictures where it is guided again.

Example: `run: {steps: 28}` with FLUX.1-schnell

Use instead: `run: {steps: 4}`

Source: what each model is published with (`advised` of `models/*.json`).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic, Path
from dcompile.core.numbered import numbered
from dcompile.facts.guidance import guidance_of
from dcompile.rules.advice.guidance_without_effect import scale_of
from dcompile.rules.rule import Rule, Subject, warning

MANY = 3
"""Times the published steps above which the rest is surely wasted."""


def check(subject: Subject) -> Iterator[Diagnostic]:
    model, run = subject.facts.model, subject.recipe.run
    advised = model.advised
    if not advised.get("distilled"):
        return
    yield from _steps(subject)
    guidance = guidance_of(model)
    rows = subject.facts.rows if guidance.branches else ()
    guided = [row for row in rows if scale_of(subject, row, guidance) > guidance.above]
    if not guided:
        return
    scale = scale_of(subject, guided[0], guidance)
    key = "true_cfg" if guidance.branches == "true_cfg_scale" or (run.guidance is None and run.true_cfg) else "guidance"
    given = getattr(run, key) is not None
    message = f"`{key}` is {scale:g}" + ("" if given else f", the default of {model.pipeline}")
    message += ": this model was distilled to be run without a second branch"
    where: Path = ("run", key) if given else subject.given("run", "steps")[:1]
    if len(guided) < len(subject.facts.rows):
        where, message = ("run", "prompts"), f"{message} ({numbered('picture', [row.index for row in guided])})"
    yield warning("DC608", message, f"write `{key}: {advised.get('guidance', guidance.above):g}`", where)


def _steps(subject: Subject) -> Iterator[Diagnostic]:
    """The steps of the recipe, and those of rows that have their own."""
    advised, run = subject.facts.model.advised, subject.recipe.run
    usual = advised["steps"]
    least, most = advised.get("least_steps", usual), MANY * usual
    hint = f"write `steps: {usual}`, which it is published with"
    own = [row for row in subject.facts.rows if "steps" in row.args]
    steps = subject.settings.steps
    if len(own) < len(subject.facts.rows) and not least <= steps <= most:
        message = f"`steps` is {steps}" + ("" if run.steps else f", the default of {subject.facts.model.pipeline}")
        what = "needs no more than" if steps > most else "needs at least"
        message += f": this distilled model {what} {usual if steps > most else least}"
        yield warning("DC608", message, hint, subject.given("run", "steps"))
    others = [row.index for row in own if not least <= row.args["steps"] <= most]
    if others:
        message = f"`steps` of {numbered('picture', others)}: this distilled model is published with {usual}"
        yield warning("DC608", message, hint, ("run", "prompts"))


RULE = Rule("DC608", check)
