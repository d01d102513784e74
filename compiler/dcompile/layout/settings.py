"""What is generated, with the model's own defaults filled in: height, width, frames, steps, dtypes."""

from __future__ import annotations

from dataclasses import dataclass

from dcompile.facts.types import ModelFacts
from dcompile.recipe.model import Recipe

CALL_NAMES = {
    "height": "height",
    "width": "width",
    "frames": "num_frames",
    "steps": "num_inference_steps",
    "guidance": "guidance_scale",
    "true_cfg": "true_cfg_scale",
}
"""The recipe's names of call arguments, and the pipelines' (diffusers 0.42.1)."""


@dataclass(frozen=True)
class Settings:
    """The numbers that shapes follow from. `chosen` names those that the recipe left open."""

    height_px: int
    width_px: int
    frames: int | None
    steps: int
    text_tokens: int
    batch: int
    chosen: tuple[tuple[str, object], ...] = ()


def settings_of(recipe: Recipe, model: ModelFacts) -> Settings:
    """The recipe's numbers, else the pipeline's own defaults (facts), each of which is reported as chosen."""
    chosen: list[tuple[str, object]] = []

    def value(name: str, given: int | None, fallback: int) -> int:
        if given is not None:
            return given
        default = int(model.defaults.get(name) or fallback)
        chosen.append((f"run.{name}", default))
        return default

    run = recipe.run
    is_video = bool(model.tokens.get("frames"))
    text = run.args.get("max_sequence_length", model.tokens.get("text_default", model.tokens.get("text", 0)))
    return Settings(
        height_px=value("height", run.height, 1024),
        width_px=value("width", run.width, 1024),
        frames=value("frames", run.frames, 81) if is_video else None,
        steps=value("steps", run.steps, 28),
        text_tokens=text if isinstance(text, int) else 0,
        batch=run.batch,
        chosen=tuple(chosen),
    )


def component_dtype(recipe: Recipe, name: str, device_kind: str) -> str:
    """The dtype a component is loaded in: its own, the model's, else bfloat16 (float32 on CPU)."""
    own = recipe.components.get(name)
    if own is not None and own.dtype is not None:
        return own.dtype
    return recipe.model.dtype or ("float32" if device_kind == "cpu" else "bfloat16")
