"""The picture has more tokens on a side than the model has positions.

What it checks: height and width of the models that learnt a table of positions and take a part of it.

Why it matters: SD3 raises at the first step; AuraFlow takes positions of other places in silence, or fails.

Example: `run: {width: 2048}` with AuraFlow 0.3, which has 96 positions of 16 pixels on a side

Use instead: `run: {width: 1536}`

Source: diffusers 0.42.1, `auraflow_transformer_2d.py:72`, `embeddings.py` (`PatchEmbed.cropped_pos_embed`).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isqrt

from dcompile.core.diagnostics import Diagnostic
from dcompile.facts.types import ComponentFacts
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    model, settings = subject.facts.model, subject.settings
    most = _positions(model.components[model.denoisers[0]]) if model.denoisers else None
    if most is None:
        return
    side = model.tokens["spatial"]
    for name, pixels in (("height", settings.height_px), ("width", settings.width_px)):
        if pixels // side > most:
            message = f"{name} {pixels} has {pixels // side} tokens, and the model {most} positions on a side"
            yield error("DC318", message, f"use {most * side} or less", subject.given("run", name))


def _positions(denoiser: ComponentFacts) -> int | None:
    """Positions on a side of the table; None where a class has none, or stretches it."""
    size = denoiser.config.get("pos_embed_max_size")
    if not isinstance(size, int) or size <= 0:
        return None
    if denoiser.class_name == "AuraFlowTransformer2DModel":
        return isqrt(size)
    return size if denoiser.class_name == "SD3Transformer2DModel" else None


RULE = Rule("DC318", check)
