"""What is generated, with the model's own defaults filled in: height, width, frames, steps, dtypes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dcompile.facts.prompts import ROW_LENGTHS, ROW_SIZES, Row
from dcompile.facts.resolve import Facts
from dcompile.facts.types import ModelFacts
from dcompile.layout import clips, pictures
from dcompile.layout.tokens import reference_tokens
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
    """The numbers that shapes follow from. `chosen` has those that the recipe left open, and why; `height_px`,
    `width_px` and `frames` are those that the pipeline makes, `frames` None for pictures.

    `asked_px` and `asked_frames` are those of the call: FLUX.1 Kontext changes the size, and LTX-2 makes as much sound
    as the frames that it is asked for would take, and fewer frames. `steps` are asked for and `run_steps` are
    run: fewer where the pipeline starts from a picture, more where it makes a clip in chunks. `picture_sizes` are
    height and width of the input pictures, `reference_tokens` what they add to the sequence, and `seen_tokens` what
    they add to the text (`text_tokens` has them). `sequences` are the lengths of image or video tokens that a denoiser
    sees, with those of reference pictures, the longest first. `fps` are the frames a second of a clip's file.
    """

    height_px: int
    width_px: int
    frames: int | None
    steps: int
    text_tokens: int
    batch: int
    run_steps: int
    asked_px: tuple[int, int]
    asked_frames: int | None
    sequences: tuple[int, ...]
    picture_sizes: tuple[tuple[int, int], ...] = ()
    reference_tokens: int = 0
    seen_tokens: int = 0
    fps: float | None = None
    chosen: tuple[tuple[str, int, str], ...] = ()

    @property
    def sequence_tokens(self) -> int:
        """Image or video tokens of one sample that a denoiser sees: those that it makes and those of pictures."""
        return self.sequences[0]


def settings_of(recipe: Recipe, facts: Facts) -> Settings:
    """The recipe's numbers, else the pipeline's own defaults (facts), each of which is reported as chosen."""
    chosen: list[tuple[str, int, str]] = []
    model, run = facts.model, recipe.run
    sizes = pictures.sizes_of(recipe, facts) if facts.pictures else ()
    side = pictures.own_size(recipe, model, sizes) if sizes else {}
    square = pictures.asked_side(model, run.args)
    own = {"height": square, "width": square, **side, "frames": clips.fixed_frames(model, run.args)}

    def value(name: str, given: int | None, fallback: int) -> int:
        if given is not None:
            return given
        known = own.get(name) or model.defaults.get(name)
        why = f"the default of {model.pipeline}"
        chosen.append((f"run.{name}", int(known or fallback), why if known else f"{why} is not known"))
        return int(known or fallback)

    is_video = bool(model.tokens.get("frames")) or "num_frames" in model.call_args
    text = run.args.get("max_sequence_length", model.tokens.get("text_default", model.tokens.get("text", 0)))
    follows = bool(side) and "height" not in model.call_args  # DC306 where the recipe gives one nevertheless
    height = value("height", None if follows else run.height, 1024)
    width = value("width", None if follows else run.width, 1024)
    asked = (height, width)
    height, width = pictures.made_size(model, run.args, height, width)
    steps = value("steps", run.steps, 28)
    seen = pictures.seen_tokens(recipe, model, sizes)
    asked_frames = value("frames", run.frames, 81) if is_video else None
    made = None if asked_frames is None else clips.clip_frames(model, run.args, asked_frames)
    chunk = clips.chunk_of(model, run.args)
    run_steps = pictures.run_steps(recipe, model, steps) if sizes else steps
    if chunk is not None and made is not None:
        run_steps *= clips.chunk_count(chunk, model.tokens, made)
    references = reference_tokens(pictures.conditions_of(recipe, model), model.tokens, sizes) if sizes else 0
    lengths = clips.sequence_lengths(model, run.args, height, width, made, steps)
    return Settings(
        height_px=height,
        width_px=width,
        frames=made,
        steps=steps,
        text_tokens=(text if isinstance(text, int) else 0) + seen,
        batch=run.batch,
        run_steps=run_steps,
        asked_px=asked,
        asked_frames=asked_frames,
        sequences=tuple(length + references for length in lengths),
        picture_sizes=sizes,
        reference_tokens=references,
        seen_tokens=seen,
        fps=recipe.output.fps or (None if made is None else clips.frames_per_second(model, run.args)[0]),
        chosen=tuple(chosen),
    )


def size_can_be_given(model: ModelFacts, args: Mapping[str, Any]) -> bool:
    """Whether another height or width makes another picture: not where it follows from the input picture, or where the
    pipeline chooses one of its own."""
    return not model.call_args or ("height" in model.call_args and not pictures.chooses_size(model, args))


def recipe_of_row(recipe: Recipe, row: Row) -> Recipe:
    """The recipe as one row sees it: with the row's own sizes, text length and pictures."""
    sizes = {key: row.args[key] for key in ROW_SIZES if key in row.args}
    lengths = {key: row.args[key] for key in ROW_LENGTHS if key in row.args}
    own = {} if row.images is None else {"images": row.images}
    run = recipe.run.model_copy(update={**sizes, **own, "args": {**recipe.run.args, **lengths}})
    return recipe.model_copy(update={"run": run})


def rows_by_shape(facts: Facts) -> list[Row]:
    """The first row of each shape that the rows ask for; the recipe's own shape is one of them."""
    first: dict[tuple[str, ...], Row] = {}
    for row in facts.rows:
        if not row.args and row.images is None:  # most rows, and this is asked for every plan
            if () not in first:
                first[()] = row
            continue
        first.setdefault(shape_of_row(row, facts), row)
    return list(first.values())


def shape_of_row(row: Row, facts: Facts) -> tuple[str, ...]:
    """What tells a row's shape from others; nothing where it is the recipe's."""
    if not has_own_shape(row):
        return ()
    # As text: what a column holds is not checked yet, and may have no hash.
    own = tuple(str(row.args.get(key)) for key in (*ROW_SIZES, *ROW_LENGTHS))
    pictures_of_row = (facts.pictures.get(name) for name in row.images or ())
    return own + tuple(f"{one.height_px}x{one.width_px}" if one else "" for one in pictures_of_row)


def has_own_shape(row: Row) -> bool:
    """Whether a row's shape differs from the recipe's."""
    return row.images is not None or (bool(row.args) and any(key in row.args for key in (*ROW_SIZES, *ROW_LENGTHS)))


def component_dtype(recipe: Recipe, name: str, device_kind: str) -> str:
    """The dtype a component is loaded in: its own, the model's, else bfloat16 (float32 on CPU)."""
    own = recipe.components.get(name)
    if own is not None and own.dtype is not None:
        return own.dtype
    return recipe.model.dtype or ("float32" if device_kind == "cpu" else "bfloat16")
