"""Sequences that are not what height, width and frames come to: Helios makes a clip in chunks that see what was made
before, ChronoEdit the frames that lead from a picture to its edit, and HiDream fills up a picture that is no square.

Source: diffusers 0.42.1, `pipeline_helios.py:700` and `:760`, `transformer_helios.py:725`,
`pipeline_chronoedit.py:593` and `:672`, `transformer_hidream_image.py:680`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, TypeGuard

from dcompile.facts.types import ModelFacts
from dcompile.layout.tokens import grid, image_tokens, made_frames

FALLBACK_FPS = 16
"""Frames a second of a clip where nothing is known of its pipeline."""
EDIT_FRAMES = 5
"""What ChronoEdit makes where it does not reason over time, whatever the call asks for: two latent frames."""

_SHRINKS = (4, 2)
"""By how much the patches of the two older parts of a history are larger on each of three sides."""


@dataclass(frozen=True)
class Chunk:
    """What a denoiser sees at once of a clip that is made in chunks.

    Attributes:
        frames: latent frames that it makes.
        history: latent frames of what was made before, oldest first: those of long ago, of a while ago, and the last
            ones, with the first frame of all where that is kept.
    """

    frames: int
    history: tuple[int, int, int]


def chunk_of(model: ModelFacts, args: Mapping[str, Any]) -> Chunk | None:
    """The chunk of a pipeline that makes its clip in chunks; its defaults where `args` do not fit.

    Args:
        model: the facts.
        args: `run.args` of the recipe.
    """
    if "num_latent_frames_per_chunk" not in model.call_args:
        return None
    own = model.call_args
    frames = args.get("num_latent_frames_per_chunk")
    sizes = args.get("history_sizes")
    fits = isinstance(sizes, (list, tuple)) and len(sizes) == 3 and all(is_count(size) for size in sizes)
    long, mid, short = sorted(sizes if fits and sizes else own["history_sizes"], reverse=True)
    # Where the first frame is not kept, one more of the last ones is there in its place.
    return Chunk(frames if is_count(frames) else own["num_latent_frames_per_chunk"], (long, mid, short + 1))


def frames_per_second(model: ModelFacts, args: Mapping[str, Any]) -> tuple[float, str]:
    """At how many frames a second a model's clip is played, and who says so.

    A pipeline that is told the rate (`frame_rate`, LTX) makes the clip for it; for others it is what the model's
    authors write, else the example of the pipeline's class.
    """
    told = args.get("frame_rate") if "frame_rate" in model.call_args else None
    if isinstance(told, (int, float)) and not isinstance(told, bool) and told > 0:
        return told, "the `frame_rate` of the call"
    if "fps" in model.advised:
        return model.advised["fps"], f"what {model.id} is published with"
    if model.defaults.get("fps"):
        return model.defaults["fps"], f"what {model.pipeline}'s own example writes"
    return FALLBACK_FPS, f"nothing says at how many {model.pipeline}'s clips are to be played"


def is_count(value: object) -> TypeGuard[int]:
    """Whether a value is a number of frames, and not beyond all reason."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10_000


def history_tokens(chunk: Chunk, rows: int, columns: int) -> int:
    """Tokens of the history, for latents of so many rows and columns of tokens: the older, the coarser."""
    total = chunk.history[2] * rows * columns
    for frames, shrink in zip(chunk.history[:2], _SHRINKS, strict=True):
        total += -(-frames // shrink) * -(-rows // shrink) * -(-columns // shrink)
    return total


def chunk_count(chunk: Chunk, tokens: Mapping[str, int], frames: int) -> int:
    """How many chunks a clip of so many frames has."""
    return max(1, -(-frames // _chunk_frames(chunk, tokens)))


def _chunk_frames(chunk: Chunk, tokens: Mapping[str, int]) -> int:
    return (chunk.frames - 1) * max(1, tokens["frames"]) + 1


def fixed_frames(model: ModelFacts, args: Mapping[str, Any]) -> int | None:
    """The frames that a pipeline makes whatever it is asked for; None where the call decides."""
    reasons = "enable_temporal_reasoning"
    return EDIT_FRAMES if reasons in model.call_args and not args.get(reasons, model.call_args[reasons]) else None


def clip_frames(model: ModelFacts, args: Mapping[str, Any], asked: int) -> int:
    """The frames that a pipeline makes of those it is asked for; where ChronoEdit stops to reason, those until then."""
    chunk = chunk_of(model, args)
    if chunk is None:
        return fixed_frames(model, args) or made_frames(model.tokens, asked)
    whole = chunk_count(chunk, model.tokens, asked) * _chunk_frames(chunk, model.tokens)
    return made_frames(model.tokens, whole)


def sequence_lengths(
    model: ModelFacts, args: Mapping[str, Any], height_px: int, width_px: int, frames: int | None, steps: int
) -> tuple[int, ...]:
    """The lengths of image or video tokens that a denoiser sees in one call of the pipeline, the longest first.

    Helios attends to text with the tokens of a chunk alone, and to the history besides elsewhere. ChronoEdit goes on
    with the first and the last latent frame where it reasons for a part of the steps. HiDream fills up what is no
    square to the longest sequence that it knows.
    """
    tokens = model.tokens
    rows, columns = grid(tokens, height_px, width_px)
    chunk = chunk_of(model, args)
    if chunk is not None:
        own = chunk.frames * rows * columns
        return own + history_tokens(chunk, rows, columns), own
    whole = image_tokens(tokens, height_px, width_px, frames)
    if model.family == "hidream" and rows != columns:
        config = model.components[model.denoisers[0]].config
        sides, patch = config.get("max_resolution", (128, 128)), config.get("patch_size", 2)
        return (prod(sides) // patch**2,)
    key = "num_temporal_reasoning_steps"
    if key in model.call_args and fixed_frames(model, args) is None:
        reasoned = args.get(key, model.call_args[key])
        if isinstance(reasoned, int) and reasoned < steps and whole > 2 * rows * columns:
            return whole, 2 * rows * columns
    return (whole,)
