"""A picture is to be changed so little that no step runs, or by more than all of it.

What it checks: `strength` of `run.args` (a share from 0 to 1), and whether it leaves one of the steps.

Why it matters: the pipelines that start from a noisy picture run `steps x strength` steps and raise where none is left,
when every weight is loaded.

Example: `run: {steps: 2, args: {strength: 0.3}}` with `task: image-to-image` and SDXL

Use instead: `run: {steps: 4, args: {strength: 0.3}}`

Source: diffusers 0.42.1, `pipeline_stable_diffusion_xl_img2img.py:662`, `pipeline_flux_img2img.py:559`.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from dcompile.core.diagnostics import Diagnostic, Path
from dcompile.facts.uses import use_of
from dcompile.layout.pictures import where_named
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    recipe, model = subject.recipe, subject.facts.model
    if where_named(recipe, subject.facts) is None:
        return
    use = use_of(model.pipeline)
    if use is None or use.strength is None or "denoising_start" in recipe.run.args:
        return
    name = use.strength
    for row in (None, *(row for row in subject.facts.rows if name in row.args or "steps" in row.args)):
        own = {} if row is None else row.args
        strength = own.get(name, recipe.run.args.get(name, model.call_args.get(name)))
        steps = own.get("steps", subject.settings.steps)
        where: Path = subject.given("run", "args", name) if row is None else ("run", "prompts")
        said = "" if row is None else f"picture {row.index}: "
        if not isinstance(strength, (int, float)) or isinstance(strength, bool) or not 0 <= strength <= 1:
            yield error("DC365", f"{said}{name} {strength} is no share from 0 to 1", "write 0.6, say", where)
            return
        if strength == 0 or (use.strength_floors and int(steps * strength) < 1):
            most = "`steps: 1`" if strength == 0 else f"`steps: {ceil(1 / strength)}`"
            hint = f"use {most} or more" if strength else "use a larger share"
            yield error("DC365", f"{said}{name} {strength} of {steps} steps leaves none to run", hint, where)
            return


RULE = Rule("DC365", check)
