"""What input pictures change: the size of what is made, the steps that are run, the tokens of text and sequence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

from dcompile.core.diagnostics import Path
from dcompile.facts.pipelines import whole
from dcompile.facts.resolve import Facts
from dcompile.facts.types import ModelFacts
from dcompile.layout.bins import binned_size, is_binned
from dcompile.layout.tokens import resized
from dcompile.recipe.model import Recipe

PATCH_PX, MERGED = 14, 2
"""Pixels on the side of a patch, and patches on the side of a token, of Qwen2.5-VL where its config does not say.
Source: transformers, `image_processing_qwen2_vl.py` (`smart_resize`)."""

AREA_ARGUMENT = "output_resolution"

Sizes = tuple[tuple[int, int], ...]
"""Height and width in pixels of each picture, as its file has them."""


def where_named(recipe: Recipe, facts: Facts) -> Path | None:
    """Where input pictures are named first; None where there are none."""
    if recipe.run.images is not None:
        return ("run", "images")
    return ("run", "prompts") if facts.pictures else None


def sizes_of(recipe: Recipe, facts: Facts) -> Sizes:
    """The pictures of the recipe; where every row names its own, those of the first row."""
    names: Sequence[str] = recipe.run.images or ()
    if recipe.run.images is None and all(row.images is not None for row in facts.rows):
        names = facts.rows[0].images or ()
    found = (facts.pictures[name] for name in names)
    return tuple((picture.height_px, picture.width_px) for picture in found)


def conditions_of(recipe: Recipe, model: ModelFacts) -> Mapping[str, Any] | None:
    """`ModelFacts.conditions`; where the call says so, FLUX.1 Kontext takes a picture at its own size, and Qwen-Image
    2.1 at another area.

    Source: diffusers 0.42.1, `pipeline_flux_kontext.py:957`, `pipeline_qwenimage21.py:668`.
    """
    if recipe.run.args.get("_auto_resize") is False:
        return {"kind": "own"}
    side = asked_side(model, recipe.run.args)
    return model.conditions if side is None else {**(model.conditions or {}), "pixels": side**2, "seen": side**2}


def asked_side(model: ModelFacts, args: Mapping[str, Any]) -> int | None:
    """The side of a square of the area that Qwen-Image 2.1 makes of pictures, and makes itself where the call does not
    say; None of other pipelines.

    Source: diffusers 0.42.1, `pipeline_qwenimage21.py:634`.
    """
    return whole(args.get(AREA_ARGUMENT), model.call_args[AREA_ARGUMENT]) if AREA_ARGUMENT in model.call_args else None


def own_size(recipe: Recipe, model: ModelFacts, sizes: Sizes) -> dict[str, int]:
    """Height and width that a pipeline takes from its pictures where the call does not say; empty where it does not.

    Source: diffusers 0.42.1, `image_processor.py:455`, `pipeline_flux2.py:904`, `pipeline_qwenimage_edit.py:624`.
    """
    from dcompile.facts.uses import use_of

    use = use_of(model.pipeline)
    if use is None or use.size_from is None:
        return {}
    height, width = sizes[-1 if use.size_from == "last" else 0]
    step = model.tokens["spatial"]
    if use.size_from == "picture":
        step = max(step, model.tokens.get("multiple", 1))
    elif (conditions := conditions_of(recipe, model)) is not None:
        height, width = resized(conditions, height, width)
    return {"height": height // step * step, "width": width // step * step}


def of_area(model: ModelFacts, max_area: Any, height_px: int, width_px: int) -> tuple[int, int]:
    """The size that FLUX.1 Kontext makes of one: of the same aspect, and as large as `max_area`, in whole tokens.

    Source: diffusers 0.42.1, `pipeline_flux_kontext.py:896`.
    """
    area = max_area if isinstance(max_area, int) and max_area > 0 else model.call_args["max_area"]
    aspect, step = width_px / height_px, model.tokens["spatial"]
    width, height = round((area * aspect) ** 0.5), round((area / aspect) ** 0.5)
    return height // step * step, width // step * step


KANDINSKY_SIZES = ((1024, 1024), (640, 1408), (1408, 640), (768, 1280), (1280, 768), (896, 1152), (1152, 896))
"""Width and height of what Kandinsky 5 makes. Source: diffusers 0.42.1, `pipeline_kandinsky_t2i.py:183`."""

HIDREAM_PIXELS = 1024 * 1024
"""The area of the pictures that HiDream makes. Source: diffusers 0.42.1, `pipeline_hidream_image.py:814`."""


def chooses_size(model: ModelFacts, args: Mapping[str, Any]) -> bool:
    """Whether a pipeline takes from height and width no more than their ratio, or nearly so."""
    if is_binned(model, args):
        return True
    return "max_area" in model.call_args or model.family == "hidream" or model.pipeline == "Kandinsky5T2IPipeline"


def made_size(model: ModelFacts, args: Mapping[str, Any], height_px: int, width_px: int) -> tuple[int, int]:
    """The height and width that a pipeline draws of those that it is asked for, before whole tokens are cut."""
    if is_binned(model, args):
        return binned_size(model, height_px, width_px)
    if "max_area" in model.call_args:
        return of_area(model, args.get("max_area"), height_px, width_px)
    if model.family == "hidream":
        scale, step = sqrt(HIDREAM_PIXELS / (width_px * height_px)), model.tokens["spatial"]
        return int(height_px * scale // step * step), int(width_px * scale // step * step)
    if model.pipeline == "Kandinsky5T2IPipeline" and (width_px, height_px) not in KANDINSKY_SIZES:
        aspect = width_px / height_px
        width, height = min(KANDINSKY_SIZES, key=lambda size: abs(size[0] / size[1] - aspect))
        return height, width
    step = model.tokens.get("floors", 1)
    return height_px // step * step, width_px // step * step


def encoded_sizes(recipe: Recipe, model: ModelFacts, sizes: Sizes) -> Sizes:
    """The sizes at which the autoencoder sees reference pictures; none where it sees them at the size that is made."""
    conditions = conditions_of(recipe, model)
    return () if conditions is None else tuple(resized(conditions, *size) for size in sizes)


def seen_tokens(recipe: Recipe, model: ModelFacts, sizes: Sizes) -> int:
    """Tokens that pictures add to the text, where the text encoder sees them too.

    Source: diffusers 0.42.1, `pipeline_qwenimage_edit.py:684`, `pipeline_qwenimage_edit_plus.py:66`.
    """
    area = (conditions_of(recipe, model) or {}).get("seen")
    if area is None or not sizes:
        return 0
    encoder = model.components.get("text_encoder")
    vision = encoder.config.get("vision_config") if encoder is not None else None
    vision = vision if isinstance(vision, dict) else {}
    side = whole(vision.get("patch_size"), PATCH_PX) * whole(vision.get("spatial_merge_size"), MERGED)
    at = [resized({"kind": "area", "pixels": area}, *size) for size in sizes]
    return sum(max(1, round(height / side)) * max(1, round(width / side)) for height, width in at)


def run_steps(recipe: Recipe, model: ModelFacts, steps: int) -> int:
    """The steps that are run of those that are asked for: a share where the pipeline starts from a noisy picture.

    Source: diffusers 0.42.1, `get_timesteps` of `pipeline_flux_img2img.py` and of the image-to-image pipelines.
    """
    from dcompile.facts.uses import use_of

    use = use_of(model.pipeline)
    if use is None or use.strength is None:
        return steps
    strength = recipe.run.args.get(use.strength, model.call_args.get(use.strength))
    if not isinstance(strength, (int, float)) or not 0 <= strength <= 1:
        return steps
    part = steps * strength
    return int(part) if use.strength_floors else steps - int(steps - part)
