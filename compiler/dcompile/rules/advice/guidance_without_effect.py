"""A guidance or a negative prompt is given that the pipeline ignores.

What it checks: `run.guidance` of a model that was not distilled with guidance but has `true_cfg`, or that was distilled
to need none; a negative prompt whose branch is off, because what scales it is 1 or less (of Z-Image, 0 or less).

Why it matters: the pipeline warns in its log at best, and makes the picture without what was asked for.

Example: `run: {negative_prompt: blurred}` with FLUX.1-dev, whose `true_cfg` is 1 where nothing is said

Use instead: `run: {negative_prompt: blurred, true_cfg: 4.0}`

Source: diffusers 0.42.1, `pipeline_flux.py:771`, `pipeline_qwenimage.py:560`, `:623`, `pipeline_z_image.py:283`
(row CALL-06).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic, Path, Remove
from dcompile.facts.guidance import Guidance, guidance_of
from dcompile.facts.prompts import Row
from dcompile.rules.rule import Rule, Subject, warning


def check(subject: Subject) -> Iterator[Diagnostic]:
    run, rows = subject.recipe.run, subject.facts.rows
    negative = [row for row in rows if row.negative_prompt]
    model = subject.facts.model
    asked = [run.guidance, *(row.args.get("guidance") for row in rows)]
    # What a model is published with may stand there, also where it has no effect.
    guided = any(value is not None and value != model.advised.get("guidance") for value in asked)
    if not guided and not negative:
        return
    guidance = guidance_of(model)
    if guided and guidance.ignores_guidance:
        class_name = model.components[model.denoisers[0]].class_name
        message = f"`guidance` has no effect: this {class_name} does not take it"
        where: Path = ("run", "guidance") if run.guidance is not None else ("run", "prompts")
        hint = "use `true_cfg`, or leave it out" if guidance.branches is not None else "leave it out"
        fix = Remove() if hint == "leave it out" and where[-1] == "guidance" else None
        yield warning("DC604", message, hint, where, fix=fix)
    off = next((row for row in negative if scale_of(subject, row, guidance) <= guidance.above), None)
    if off is not None and guidance.branches is not None and guidance.takes_negative:
        of_row = "" if run.negative_prompt is not None else f" of picture {off.index}"
        key = "true_cfg" if guidance.branches == "true_cfg_scale" or run.guidance is None else "guidance"
        message = f"the negative prompt{of_row} has no effect: `{key}` is {scale_of(subject, off, guidance):g}"
        where = ("run", "negative_prompt") if run.negative_prompt is not None else ("run", "prompts")
        yield warning("DC604", message, f"set `{key}` above {guidance.above:g}, such as 4.0", where)


def scale_of(subject: Subject, row: Row, guidance: Guidance) -> float:
    """What the two branches are scaled by for a row: its own columns first, then `run.args`, then the keys of `run`."""
    run = subject.recipe.run
    key = "true_cfg" if guidance.branches == "true_cfg_scale" else "guidance"
    columns = (row.args.get(name) for name in ("true_cfg", key, guidance.branches or ""))
    said = (*columns, run.args.get(guidance.branches or ""), run.true_cfg, getattr(run, key), guidance.default)
    value = next((value for value in said if value is not None), None)
    return float(value) if isinstance(value, (int, float)) else 2.0  # no number: the pipeline will say so


RULE = Rule("DC604", check)
