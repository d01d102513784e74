"""The image or video tokens cannot be divided over the context group.

What it checks: the token count of the picture against ring x ulysses, without `uneven`.

Why it matters: diffusers fails with an AssertionError at the first step; under `python -O` the ranks hang.

Example: `parallel: {context: {ulysses: 2}}` with 1328x1328 (83 x 83 tokens)

Use instead: `uneven: true`, or another size

Source: diffusers 0.42.1, `hooks/context_parallel.py:274` (rules.md CPS-01, CPS-04, CPS-10, CPS-11).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.layout.settings import Settings
from dcompile.layout.tokens import divisors, grid, latent_frames, say_choices
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    tokens, settings = subject.facts.model.tokens, subject.settings
    rows, columns = grid(tokens, settings.height_px, settings.width_px)
    frames = latent_frames(tokens, settings.frames)
    count = rows * columns * frames
    shape = f"{rows}x{columns}" + (f", {frames} frames" if frames > 1 else "")
    for split in dict.fromkeys(s for s in subject.splits.components.values() if s.context > 1):
        degree = split.context
        if split.uneven and count < degree:
            message = f"{count} image tokens ({shape}) are fewer than the {degree} ranks that share them"
            yield error("DC402", message, "use a larger picture or a smaller degree", split.where)
        if split.uneven or count % degree == 0:
            continue
        choices = tuple(d for d in divisors(count, 16) if d > 1)
        fits = f"they divide by {say_choices(choices)}" if choices else "they have no divisor up to 16"
        hint = f"{fits}; {_other_size(tokens, settings, degree)}or set `uneven: true`"
        yield error("DC402", f"{count} image tokens ({shape}) cannot be divided by {degree}", hint, split.where)


def _other_size(tokens: dict[str, int], settings: Settings, degree: int) -> str:
    """The nearest larger size whose tokens divide, as part of a hint."""
    step = tokens["spatial"]
    for rows in range(settings.height_px // step, settings.height_px // step + degree + 1):
        for columns in range(settings.width_px // step, settings.width_px // step + degree + 1):
            if rows * columns % degree == 0:
                return f"{rows * step}x{columns * step} gives {rows * columns} a frame, "
    return ""


RULE = Rule("DC402", check)
