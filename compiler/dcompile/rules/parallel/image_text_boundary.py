"""Text of another length than 512 moves the border between image and text tokens.

What it checks: `max_sequence_length` of image-to-video models whose attention has keys of its own for a CLIP picture.

Why it matters: their processors take all but the last 512 tokens for those of the picture, so a part of the text is
attended to as picture, in silence.

Example: `run: {args: {max_sequence_length: 256}}` with Wan 2.1 image-to-video

Use instead: leave it out; 512 is the default

Source: diffusers 0.42.1, `transformer_wan.py:89`, `transformer_chronoedit.py:92` (row CPS-13).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic, Remove
from dcompile.rules.rule import Rule, Subject, error

TEXT_TOKENS = 512
CLASSES = ("WanTransformer3DModel", "ChronoEditTransformer3DModel")


def check(subject: Subject) -> Iterator[Diagnostic]:
    given = subject.recipe.run.args.get("max_sequence_length", TEXT_TOKENS)
    model = subject.facts.model
    of_pictures = [
        name
        for name in model.denoisers
        if model.components[name].class_name in CLASSES
        and model.components[name].config.get("added_kv_proj_dim") is not None
    ]
    if of_pictures and given != TEXT_TOKENS:
        message = f"the attention of `{of_pictures[0]}` takes all but the last {TEXT_TOKENS} tokens for the picture's"
        yield error("DC423", message, "leave it out", ("run", "args", "max_sequence_length"), fix=Remove())


RULE = Rule("DC423", check)
