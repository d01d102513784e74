"""The picture, or the text, has tokens for which the model has no positions.

What it checks: height and width of the models that learnt a table of positions and take a part of it; and the length of
the text where the table has room for one length alone, as that of CogVideoX-2b.

Why it matters: SD3 raises at the first step; AuraFlow takes positions of other places in silence, or fails. CogVideoX
fails at the first step where the text is longer or shorter than its table has it.

Example: `run: {width: 2048}` with AuraFlow 0.3, which has 96 positions of 16 pixels on a side

Use instead: `run: {width: 1536}`

Source: diffusers 0.42.1, `auraflow_transformer_2d.py:72`, `embeddings.py` (`PatchEmbed.cropped_pos_embed`,
`CogVideoXPatchEmbed.forward`).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isqrt

from dcompile.core.diagnostics import Diagnostic
from dcompile.facts.types import ComponentFacts
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    model, settings = subject.facts.model, subject.settings
    yield from _text(subject)
    most = _positions(model.components[model.denoisers[0]]) if model.denoisers else None
    if most is None:
        return
    side = model.tokens["spatial"]
    for name, pixels in (("height", settings.height_px), ("width", settings.width_px)):
        if pixels // side > most:
            message = f"{name} {pixels} has {pixels // side} tokens, and the model {most} positions on a side"
            yield error("DC318", message, f"use {most * side} or less", subject.given("run", name))


def _text(subject: Subject) -> Iterator[Diagnostic]:
    """Text of another length than the table of CogVideoX has, which is added to text and video together."""
    model, asked = subject.facts.model, subject.settings.text_tokens
    for name in model.denoisers:
        config = model.components[name].config
        room = config.get("max_text_seq_length")
        if config.get("use_rotary_positional_embeddings") or not isinstance(room, int) or asked == room:
            continue
        message = f"the positions of `{name}` are for {room} text tokens, and the text has {asked}"
        given = subject.given("run", "args", "max_sequence_length")
        hint = f"use {room}" if len(given) > 2 else f"write `args: {{max_sequence_length: {room}}}`"
        yield error("DC318", message, hint, given)
        return


def _positions(denoiser: ComponentFacts) -> int | None:
    """Positions on a side of the table; None where a class has none, or stretches it."""
    size = denoiser.config.get("pos_embed_max_size")
    if not isinstance(size, int) or size <= 0:
        return None
    if denoiser.class_name == "AuraFlowTransformer2DModel":
        return isqrt(size)
    return size if denoiser.class_name == "SD3Transformer2DModel" else None


RULE = Rule("DC318", check)
