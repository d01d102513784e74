"""How many tokens a denoiser sees: the lengths that context parallelism splits.

Formulas per family: floor(height / spatial) * floor(width / spatial), times latent frames for video
(floor((frames - 1) / temporal) + 1). Compared upstream with the shapes of real pipelines; diffusers 0.42.1,
`pipeline_flux.py`, `pipeline_wan.py`, `pipeline_ltx.py`, `pipeline_qwenimage.py`.
"""

from __future__ import annotations

from collections.abc import Mapping


def grid(tokens: Mapping[str, int], height_px: int, width_px: int) -> tuple[int, int]:
    """Rows and columns of tokens of one latent frame."""
    return height_px // tokens["spatial"], width_px // tokens["spatial"]


def latent_frames(tokens: Mapping[str, int], frames: int | None) -> int:
    """Latent frames of a clip; 1 for pictures."""
    temporal = tokens.get("frames", 0)
    return (frames - 1) // temporal + 1 if temporal and frames else 1


def image_tokens(tokens: Mapping[str, int], height_px: int, width_px: int, frames: int | None) -> int:
    """Image or video tokens of one sample."""
    rows, columns = grid(tokens, height_px, width_px)
    return rows * columns * latent_frames(tokens, frames)


def divisors(number: int, up_to: int = 64) -> tuple[int, ...]:
    """Divisors of a number, in order, no larger than `up_to`."""
    return tuple(d for d in range(1, min(number, up_to) + 1) if number % d == 0)


def say_choices(choices: tuple[int, ...]) -> str:
    """`1, 2, 3 or 4`, for hints."""
    texts = [str(choice) for choice in choices]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} or {texts[-1]}"
