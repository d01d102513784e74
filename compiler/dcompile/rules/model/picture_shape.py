"""An input picture is too small, or too long and narrow, for the pipeline.

What it checks: the sides of every picture: at least one whole token once the pipeline has resized it, and for FLUX.2
at least 64 pixels and an aspect of at most 8 to 1.

Why it matters: the pipeline raises, or encodes a picture without a pixel, when every weight is loaded.

Example: a picture of 1000x100 pixels with FLUX.2

Use instead: a picture of 800x100 pixels

Source: diffusers 0.42.1, `flux2/image_processor.py:70` (`check_image_input`), `pipeline_qwenimage_edit.py:155`.
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic, Path
from dcompile.layout.pictures import encoded_sizes, own_size
from dcompile.rules.rule import Rule, Subject, error

LEAST_SIDE, MOST_ASPECT = 64, 8


def check(subject: Subject) -> Iterator[Diagnostic]:
    named = subject.recipe.run.images or ()
    for name, picture in subject.facts.pictures.items():
        height, width = picture.height_px, picture.width_px
        fault = _fault(subject, height, width)
        if fault:
            where: Path = ("run", "images", named.index(name)) if name in named else ("run", "prompts")
            yield error("DC367", f"`{name}` ({width}x{height} pixels) {fault}", "cut or enlarge it", where)


def _fault(subject: Subject, height: int, width: int) -> str:
    """What is wrong with a picture of this size, or nothing."""
    model = subject.facts.model
    if model.conditions is not None and model.conditions["kind"] == "shrunk":
        if min(height, width) < LEAST_SIDE:
            return f"has a side below the {LEAST_SIDE} pixels that {model.pipeline} wants"
        if max(height, width) > MOST_ASPECT * min(height, width):
            return f"is longer than {MOST_ASPECT} to 1, the most that {model.pipeline} takes"
    sizes = ((height, width),)
    followed = own_size(subject.recipe, model, sizes)
    at = [*encoded_sizes(subject.recipe, model, sizes)]
    if followed:
        at.append((followed["height"], followed["width"]))
    if any(min(one) < model.tokens["spatial"] for one in at):
        return f"has no whole token once {model.pipeline} has resized it"
    return ""


RULE = Rule("DC367", check)
