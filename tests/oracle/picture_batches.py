"""One call for several prompts and an input picture, beside a call for each of them: which pipelines make the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import plain, runtime
from .ask import compare, tolerances, verdict
from .zoo import FAMILIES
from .zoo.parts import LARGE, PICTURE, SQUARE, TURNED

Recipe = dict[str, Any]
FORMS = ("shared", "each")
"""The pictures as for one prompt, or one for every prompt."""
_OWN_SIZE = {"StableDiffusionImg2ImgPipeline", "StableDiffusionXLImg2ImgPipeline", "ZImageImg2ImgPipeline"}
_KONTEXT = {"max_area": 1024, "_auto_resize": False}
_PIPELINES: tuple[tuple[str, str, tuple[str, ...], dict[str, Any]], ...] = (
    ("flux", "FluxImg2ImgPipeline", (PICTURE,), {}),
    ("flux", "FluxKontextPipeline", (PICTURE,), _KONTEXT),
    ("flux2", "Flux2Pipeline", (LARGE,), {}),
    ("flux2", "Flux2Pipeline", (LARGE, TURNED), {}),
    ("klein", "Flux2KleinPipeline", (LARGE,), {}),
    ("klein", "Flux2KleinPipeline", (LARGE, TURNED), {}),
    ("qwen-image", "QwenImageImg2ImgPipeline", (PICTURE,), {}),
    ("ltx", "LTXImageToVideoPipeline", (PICTURE,), {}),
    ("ltx-condition", "LTXConditionPipeline", (PICTURE,), {}),
    ("sd3", "StableDiffusion3Img2ImgPipeline", (PICTURE,), {}),
    ("sd", "StableDiffusionImg2ImgPipeline", (SQUARE,), {}),
    ("sdxl", "StableDiffusionXLImg2ImgPipeline", (SQUARE,), {"strength": 0.7}),
    ("chroma", "ChromaImg2ImgPipeline", (PICTURE,), {}),
    ("z-image", "ZImageImg2ImgPipeline", (PICTURE,), {}),
    ("chronoedit", "ChronoEditPipeline", (PICTURE,), {}),
    ("helios", "HeliosPipeline", (PICTURE,), {}),
    ("wan-seeing", "WanImageToVideoPipeline", (PICTURE,), {}),
    ("wan-expanded", "WanImageToVideoPipeline", (PICTURE,), {}),
    ("wan-picture", "WanImageToVideoPipeline", (PICTURE,), {}),
)
"""Tiny pipeline, class, pictures, and what `run.args` holds beside the family's.

LTX2ImageToVideoPipeline is not among them: it takes a list of pictures only where it does not compress them first.
"""


def batch_recipes() -> list[tuple[str, Recipe]]:
    """Every class that a tiny pipeline can be run by and that starts from pictures, asked for two in a call."""
    from .test_strategies import recipe_of

    found = []
    for path, pipeline, images, args in _PIPELINES:
        name = "wan-seeing" if path == "wan-picture" else path  # it has no recipes of its own
        recipe = recipe_of(name, {})
        own = {key: value for key, value in recipe["run"].items() if key not in FAMILIES[name].branches}
        own |= {"images": list(images), "steps": 3, "batch": 2, "args": {**own["args"], **args}}
        if pipeline in _OWN_SIZE:
            own = {key: value for key, value in own.items() if key not in ("height", "width")}
        found.append((pipeline, {**recipe, "model": {"path": path, "pipeline": pipeline}, "run": own}))
    return found


def form_of(recipe: Recipe, root: Path) -> str | None:
    """In which form of the pictures one call makes what a call for each prompt makes; None where in neither."""
    _, plan = verdict(recipe, root)
    if plan is None:
        raise ValueError(f"{recipe['model']} cannot be asked")
    for form in FORMS:
        plan["program"]["run"]["images"] = form
        done = runtime.run_plan(plan, root)
        reference = plain.run_recipe(recipe, root)
        if reference.error is not None:
            raise ValueError(f"{recipe['model']}: {reference.error}")
        if done.error is None and compare(done.ranks, reference.ranks[0], tolerances(plan, reference.ranks[0]))[1]:
            return form
    return None
