"""Height, width or frames are not what the pipeline can make.

What it checks: `run.height` and `run.width` against the size of a token, and `run.frames` against the temporal
compression: a video has 1 frame more than a multiple of it, or whole chunks of them.

Why it matters: Wan and LTX raise after loading where a picture's side does not divide; Flux and Qwen floor it with a
warning that is easy to miss, Qwen-Image 2.1 to 32 pixels. Wan makes 81 frames of 80 and says so in its log; LTX makes
153 of 160 in silence, Helios 129 of 100, and ChronoEdit 5 of 81 unless it reasons over time. FLUX.1 Kontext makes about
1024x1024 whatever is asked for, unless `max_area` says otherwise; so does HiDream, and Kandinsky 5 and HunyuanDiT make
the nearest of some sizes.

Example: `run: {height: 1000}` with Wan

Use instead: `run: {height: 992}` or `1008`

Source: diffusers 0.42.1, `pipeline_wan.py:292` and `:494`, `pipeline_ltx.py:377` and `:491`, `pipeline_flux.py:453`,
`pipeline_qwenimage21.py:643`, `pipeline_flux_kontext.py:896`, `pipeline_hidream_image.py:814`,
`pipeline_kandinsky_t2i.py:628`, `pipeline_helios.py:702`, `pipeline_chronoedit.py:593`
(rows CALL-01, CALL-02, CALL-03). A Wan whose autoencoder has 16 pixels a latent floors to 32 what divides by 16
(`pipeline_wan.py:506`).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import lcm

from dcompile.core.diagnostics import Diagnostic
from dcompile.layout.bins import has_sizes, is_resized, own_side_px
from dcompile.layout.clips import chunk_of, clip_frames, fixed_frames
from dcompile.layout.pictures import chooses_size
from dcompile.rules.rule import Rule, Subject, error, warning

FLOORS = ("WanPipeline", "WanImageToVideoPipeline")
"""Pipelines that take what divides by `multiple`, and cut it to whole tokens themselves."""


def check(subject: Subject) -> Iterator[Diagnostic]:
    tokens = subject.facts.model.tokens
    args = subject.recipe.run.args
    if is_resized(subject.facts.model, args):
        if not has_sizes(subject.facts.model):
            side = own_side_px(subject.facts.model)
            message = f"{subject.facts.model.pipeline} knows no sizes for a model of {side}x{side} pixels"
            yield error("DC308", message, "write `args: {use_resolution_binning: false}`", ("run", "args"))
        return
    if chooses_size(subject.facts.model, args):
        yield from _of_area(subject)
        return
    strict = tokens.get("multiple", 1)
    step = lcm(strict, tokens["spatial"]) if strict > 1 else tokens.get("floors", tokens["spatial"])
    floors = strict == 1 or subject.facts.model.pipeline in FLOORS
    for name, pixels in zip(("height", "width"), subject.settings.asked_px, strict=True):
        if pixels % step:
            lower = pixels // step * step
            hint = f"use {lower} or {lower + step}" if lower else f"use {step}"
            message = f"{name} {pixels} is not a multiple of {step}"
            if pixels % strict or not floors or not lower:
                yield error("DC308", message, hint, subject.given("run", name))
            else:
                yield warning("DC308", f"{message}; the pipeline makes {lower}", hint, subject.given("run", name))
    asked, made = subject.recipe.run.frames, subject.settings.frames
    if asked is not None and made is not None and asked != made:
        message, hint = _of_frames(subject, asked, made)
        yield warning("DC308", message, hint, subject.given("run", "frames"))


def _of_frames(subject: Subject, asked: int, made: int) -> tuple[str, str]:
    """What is said of a length that the pipeline does not make."""
    model, args = subject.facts.model, subject.recipe.run.args
    if fixed_frames(model, args) is not None:
        message = f"{model.pipeline} makes {made} frames, whatever it is asked for, unless it reasons over time"
        return message, f"use {made}, or write `args: {{enable_temporal_reasoning: true}}`"
    chunk = chunk_of(model, args)
    if chunk is not None:
        one = clip_frames(model, args, 1)
        below = clip_frames(model, args, max(1, asked - one))
        message = f"{asked} frames are no whole chunks of {one}; the pipeline makes {made}"
        return message, f"use {made}" if below == made else f"use {below} or {made}"
    temporal = model.tokens["frames"]
    lower = (asked - 1) // temporal * temporal + 1
    message = f"{asked} frames are not 1 more than a multiple of {temporal}; the pipeline makes {made}"
    return message, f"use {lower} or {lower + temporal}"


def _of_area(subject: Subject) -> Iterator[Diagnostic]:
    """The size of a pipeline that keeps the aspect, or nearly so, and chooses the area."""
    height, width = subject.settings.height_px, subject.settings.width_px
    asked_height, asked_width = subject.settings.asked_px
    where = subject.given("run", "height" if subject.recipe.run.height is not None else "width")
    if not height or not width:
        message = f"{asked_width}x{asked_height} pixels are too long and narrow: a side has no whole token"
        yield error("DC308", message, "use sides that are more alike", where)
    elif (height, width) != (asked_height, asked_width):
        message = f"{subject.facts.model.pipeline} makes {width}x{height} of {asked_width}x{asked_height}"
        hint = f"use {width}x{height}"
        if "max_area" in subject.facts.model.call_args:
            hint += f", or write `args: {{max_area: {asked_height * asked_width}}}` for about that size"
        yield warning("DC308", message, hint, where)


RULE = Rule("DC308", check)
