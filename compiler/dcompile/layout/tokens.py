"""How many tokens a denoiser sees: the lengths that context parallelism splits.

Formulas per family: floor(height / spatial) * floor(width / spatial), times latent frames for video. Reference pictures
join the sequence of the models that edit. Compared upstream with the shapes of real pipelines; diffusers 0.42.1,
`pipeline_flux.py`, `pipeline_wan.py`, `pipeline_ltx.py`, `pipeline_qwenimage.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import gcd, lcm, sqrt
from typing import Any

from dcompile.facts.types import ModelFacts


def grid(tokens: Mapping[str, int], height_px: int, width_px: int) -> tuple[int, int]:
    """Rows and columns of tokens of one latent frame."""
    return height_px // tokens["spatial"], width_px // tokens["spatial"]


def made_frames(tokens: Mapping[str, int], frames: int) -> int:
    """The frames that a pipeline makes of those it is asked for: 1 more than a multiple of the temporal compression.

    Wan takes the multiple below and adds 1 (80 become 81); LTX has no latent frame for a remainder (160 become 153).
    Source: diffusers 0.42.1, `pipeline_wan.py:494`, `pipeline_ltx.py:491`.
    """
    temporal = tokens.get("frames", 0)
    if not temporal:
        return frames
    if tokens.get("rounds_frames") and frames % temporal != 1:
        return frames // temporal * temporal + 1
    return (frames - 1) // temporal * temporal + 1


def latent_frames(tokens: Mapping[str, int], frames: int | None) -> int:
    """Frames of tokens of a clip; 1 for pictures.

    floor((frames - 1) / temporal) + 1. Wan's pipelines first round a length that is no multiple plus one
    (`pipeline_wan.py:494`), which comes to floor(frames / temporal) + 1.
    """
    temporal = tokens.get("frames", 0)
    if not temporal or not frames:
        return 1
    latent = (frames - (0 if tokens.get("rounds_frames") else 1)) // temporal + 1
    return -(-latent // tokens.get("frames_patch", 1))


def image_tokens(tokens: Mapping[str, int], height_px: int, width_px: int, frames: int | None) -> int:
    """Image or video tokens of one sample, without reference pictures."""
    rows, columns = grid(tokens, height_px, width_px)
    return rows * columns * latent_frames(tokens, frames)


def reference_tokens(
    conditions: Mapping[str, Any] | None, tokens: Mapping[str, int], sizes_px: Iterable[tuple[int, int]]
) -> int:
    """Tokens that reference pictures add to the sequence.

    Args:
        conditions: `ModelFacts.conditions`; None where pictures add none (they are stacked on the channels, or attended
            to apart).
        tokens: `ModelFacts.tokens`.
        sizes_px: height and width of each picture, as its file has them.

    Source: `pipeline_flux_kontext.py:934`, `pipeline_flux2.py:893`, `pipeline_qwenimage_edit.py:155`.
    """
    if conditions is None:
        return 0
    total = 0
    for height, width in sizes_px:
        rows, columns = grid(tokens, *resized(conditions, height, width))
        total += rows * columns
    return total


def resized(conditions: Mapping[str, Any], height_px: int, width_px: int) -> tuple[int, int]:
    """The size at which a pipeline encodes a reference picture, before it is cut to whole tokens."""
    if conditions["kind"] == "own":
        return height_px, width_px
    if conditions["kind"] == "snapped":
        aspect = width_px / height_px
        _, width, height = min((abs(aspect - width / height), width, height) for height, width in conditions["sizes"])
        return height, width
    pixels: int = conditions["pixels"]
    if conditions["kind"] == "area":
        wide = sqrt(pixels * width_px / height_px)
        return round(wide * height_px / width_px / 32) * 32, round(wide / 32) * 32
    if height_px * width_px <= pixels:
        return height_px, width_px
    scale = sqrt(pixels / (height_px * width_px))
    return int(height_px * scale), int(width_px * scale)


def divisors(number: int, up_to: int = 64) -> tuple[int, ...]:
    """Divisors of a number, in order, no larger than `up_to`."""
    return tuple(d for d in range(1, min(number, up_to) + 1) if number % d == 0)


def say_choices(choices: tuple[int, ...]) -> str:
    """`1, 2, 3 or 4`, for hints."""
    texts = [str(choice) for choice in choices]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} or {texts[-1]}"


_OWN_SIZES = ("Layered", "Redux", "Pyramid")
"""Parts of the names of pipelines whose denoiser sees tokens that no formula here counts."""
_WITH_PICTURES = frozenset(
    (
        *("flux", "flux2", "qwenimage", "qwenimage21", "chroma", "zimage", "sdxl", "sd", "sd3"),
        *("chronoedit", "helios", "wan", "ltx"),
    )
)
"""Families whose pipelines were read for what input pictures add to text and sequence."""


def is_countable(model: ModelFacts, has_pictures: bool = False) -> bool:
    """Whether the token count follows from height, width, frames and the sizes of input pictures."""
    if model.family == "other" or any(part in model.pipeline for part in _OWN_SIZES):
        return False
    return not has_pictures or model.family in _WITH_PICTURES


_REACH = 64
"""How many rows of tokens a proposed picture may be taller or lower."""


def nearest_sizes(
    tokens: Mapping[str, int], height_px: int, width_px: int, frames: int, divisor: int
) -> tuple[tuple[int, int, int], ...]:
    """The nearest smaller and the nearest larger picture whose tokens divide: (height, width, tokens) each.

    Near means a small change of both sides, and of their ratio.
    """
    return _nearest(tokens["spatial"], tokens.get("multiple", 1), height_px, width_px, frames, divisor)


@lru_cache(maxsize=1024)
def _nearest(
    spatial: int, multiple: int, height_px: int, width_px: int, frames: int, divisor: int
) -> tuple[tuple[int, int, int], ...]:
    rows, columns = height_px // spatial, width_px // spatial

    def distance(r: int, c: int) -> float:
        dr, dc = r / rows - 1, c / columns - 1
        return abs(dr) + abs(dc) + 2 * abs(dr - dc)

    # For one number of rows the distance is convex in the columns, so the best of those that divide lies beside one of
    # its corners, or beside the size at which the picture grows larger than the one that was asked for.
    every = multiple // gcd(multiple, spatial)
    fits = []
    for r in range(max(1, rows - _REACH), rows + _REACH + 1):
        if r % every == 0:
            step = lcm(divisor // gcd(divisor, r * frames), every)
            corners = {corner // step for corner in (columns, columns * r // rows, rows * columns // r)}
            fits += [(r, c * step) for corner in corners for c in (corner - 1, corner, corner + 1) if c > 0]
    sides = [
        min(part, key=lambda one: (distance(*one), one), default=None)
        for part in (
            [one for one in fits if one[0] * one[1] < rows * columns],
            [one for one in fits if one[0] * one[1] > rows * columns],
        )
    ]
    return tuple((r * spatial, c * spatial, r * c * frames) for r, c in (one for one in sides if one is not None))


def nearest_frames(tokens: Mapping[str, int], height_px: int, width_px: int, frames: int, divisor: int) -> int | None:
    """The nearest number of frames whose tokens divide, up to four latent frames away."""
    rows, columns = grid(tokens, height_px, width_px)
    latent, temporal = latent_frames(tokens, frames), tokens["frames"]
    fits = [n for n in range(max(1, latent - 4), latent + 5) if rows * columns * n % divisor == 0]
    best = min(fits, key=lambda n: (abs(n - latent), n), default=None)
    return None if best is None else (best - 1) * temporal + 1
