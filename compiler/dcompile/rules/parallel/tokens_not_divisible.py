"""The image or video tokens cannot be divided over the context group.

What it checks: the token count of the picture, with those of reference pictures where they join the sequence, against
ring x ulysses, without `uneven`. Helios makes a clip in chunks, and both a chunk and what it sees of the history
before it are divided; ChronoEdit goes on with two latent frames where it reasons for a part of the steps.

Why it matters: diffusers fails with an AssertionError at the first step; under `python -O` the ranks hang.

Example: `parallel: {context: {ulysses: 2}}` with 1328x1328 (83 x 83 tokens)

Use instead: `uneven: true`, or another size

Source: diffusers 0.42.1, `hooks/context_parallel.py:274`, `transformer_helios.py:560`, `pipeline_chronoedit.py:672`
(rows CPS-01, CPS-04, CPS-06, CPS-10, CPS-11).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.layout.clips import chunk_of, fixed_frames, history_tokens
from dcompile.layout.degrees import UP_TO, common_degrees
from dcompile.layout.pictures import chooses_size
from dcompile.layout.splits import Split
from dcompile.layout.tokens import grid, is_countable, latent_frames, nearest_frames, nearest_sizes, say_choices
from dcompile.rules.parallel.context_plan_unusable import is_refused
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    model, settings = subject.facts.model, subject.settings
    if not is_countable(model, bool(subject.settings.picture_sizes)):
        return  # DC419 is the cause
    served = (split for name, split in subject.splits.components.items() if not is_refused(subject, name))
    for split in dict.fromkeys(split for split in served if split.context > 1):
        degree, shortest = split.context, settings.sequences[-1]
        if split.uneven and shortest < degree:
            message = f"{shortest} image tokens ({_shape(subject)}) are fewer than the {degree} ranks that share them"
            yield error("DC402", message, "use a larger picture or a smaller degree", split.where)
        odd = [count for count in settings.sequences if count % degree]
        if odd and not split.uneven:
            message = f"{odd[0]} image tokens ({_shape(subject)}) cannot be divided by {_said(split)}"
            yield error("DC402", message, _hint(subject, split), split.where)


def _shape(subject: Subject) -> str:
    """What the tokens are."""
    model, settings = subject.facts.model, subject.settings
    rows, columns = grid(model.tokens, settings.height_px, settings.width_px)
    chunk = chunk_of(model, subject.recipe.run.args)
    frames = latent_frames(model.tokens, settings.frames) if chunk is None else chunk.frames
    shape = f"{rows}x{columns}" + (f" in each of {frames} latent frames" if frames > 1 else "")
    if chunk is not None:
        shape += f", and {history_tokens(chunk, rows, columns)} of the history"
    elif len(settings.sequences) > 1:
        shape += ", 2 of them in the end"
    if settings.reference_tokens:
        shape += f" and {settings.reference_tokens} of input pictures"
    return shape


def _said(split: Split) -> str:
    both = split.ring > 1 and split.ulysses > 1
    return f"{split.context} (ulysses {split.ulysses} x ring {split.ring})" if both else str(split.context)


def _hint(subject: Subject, split: Split) -> str:
    model, settings, degree = subject.facts.model, subject.settings, split.context
    ways = []
    components = [model.components[name] for name, one in subject.splits.components.items() if one == split]
    text = [settings.text_tokens for one in components if one.context_splits_text and settings.text_tokens]
    choices = common_degrees([*settings.sequences, *text], components[0].heads, split)
    if choices:
        ways.append(f"use {say_choices(choices)} ranks")
    sides = (settings.height_px, settings.width_px)
    is_plain = len(settings.sequences) == 1
    sizes = nearest_sizes(model.tokens, *sides, latent_frames(model.tokens, settings.frames), degree)
    can_be = settings.reference_tokens % degree == 0 and not chooses_size(model, subject.recipe.run.args)
    if sizes and is_plain and can_be:
        ways.append(" and ".join(f"{height}x{width} gives {tokens}" for height, width, tokens in sizes))
    if settings.frames is not None and is_plain and fixed_frames(model, subject.recipe.run.args) is None:
        frames = nearest_frames(model.tokens, *sides, settings.frames, degree)
        if frames is not None:
            ways.append(f"`frames: {frames}` divides")
    if 1 in (split.ring, split.ulysses) and settings.sequences[-1] >= degree:
        ways.append("set `uneven: true`")
    said = ", ".join(ways[:-1]) + ", or " + ways[-1] if len(ways) > 1 else "".join(ways) or "leave `context` out"
    return said if choices else f"they have no divisor up to {UP_TO} that serves: {said}"


RULE = Rule("DC402", check)
