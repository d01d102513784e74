"""Pipelines that start from pictures, under every way to split them that is legal: the pictures of one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("torch", reason="the oracle needs the extra `run`")

import diffusers
import torch
from dcompile.driver import compile_recipe
from dcompile.facts.registry import picture_batches
from dcompile.runtime import generate
from dcompile.runtime.pictures import load_pictures

from .ask import AGREED_YES, ask
from .picture_batches import batch_recipes, form_of
from .zoo import FAMILIES, wan
from .zoo.parts import LARGE, PICTURE, TURNED

pytestmark = pytest.mark.slow

ULYSSES, RING, TENSOR = {"context": {"ulysses": 2}}, {"context": {"ring": 2}}, {"tensor": 2}
UNEVEN = {"context": {"ulysses": 2, "uneven": True}}


@pytest.fixture(scope="module")
def drawn(root: Path) -> Path:
    """The folder of the tiny pipelines, with one of Wan that starts from a picture."""
    wan.save_from_picture(root / "wan-picture")
    return root


def recipe_of(
    model: dict[str, Any], parallel: dict[str, Any], images: list[str], run: dict[str, Any] | None = None
) -> dict[str, Any]:
    own = {"prompts": ["red apple", "slice of pizza"], "images": images, "steps": 3, "seed": 5, **(run or {})}
    return {"version": 1, "model": model, "devices": {"kind": "cpu"}, "parallel": parallel, "run": own}


KONTEXT = {"path": "flux", "pipeline": "FluxKontextPipeline"}
SDXL = {"path": "sdxl", "pipeline": "StableDiffusionXLImg2ImgPipeline"}
KONTEXT_ARGS = {"max_sequence_length": 12, "max_area": 1024, "_auto_resize": False}
SMALL = {"height": 32, "width": 32}
CASES: tuple[tuple[str, dict[str, Any], list[str], dict[str, Any], tuple[dict[str, Any], ...]], ...] = (
    (
        "kontext",
        KONTEXT,
        [PICTURE],
        {**SMALL, "args": KONTEXT_ARGS},
        ({}, {"data": 2}, ULYSSES, RING, TENSOR, {"device_map": {"transformer": 1, "vae": 2}}),
    ),
    (
        "flux",
        {"path": "flux", "pipeline": "FluxImg2ImgPipeline"},
        [TURNED],
        {**SMALL, "args": {"max_sequence_length": 12, "strength": 0.7}},
        ({}, ULYSSES, TENSOR),
    ),
    (
        "flux2",
        {"path": "flux2"},
        [LARGE, TURNED],
        {"args": {"max_sequence_length": 12, **FAMILIES["flux2"].args}},
        ({}, ULYSSES, TENSOR, {"device_map": {"transformer": 1, "vae": 1}}),
    ),
    (
        "qwen-image",
        {"path": "qwen-image", "pipeline": "QwenImageImg2ImgPipeline"},
        [PICTURE],
        {"height": 64, "width": 64, "args": {"max_sequence_length": 512}},
        ({}, UNEVEN, TENSOR),
    ),
    (
        "wan",
        {"path": "wan-picture"},
        [TURNED],
        {**SMALL, "frames": 5, "args": {"max_sequence_length": 512}},
        ({}, {"data": 2}, ULYSSES, {"device_map": {"transformer": 1, "vae": 2}}),
    ),
    (
        "ltx",
        {"path": "ltx", "pipeline": "LTXImageToVideoPipeline"},
        [LARGE],
        {"height": 64, "width": 64, "frames": 9, "args": {"max_sequence_length": 12}},
        ({}, {"device_map": {"transformer": 1, "vae": 1}}),
    ),
    (
        "sdxl",
        SDXL,
        [PICTURE],
        {"args": {"strength": 0.7}},
        ({}, {"data": 2}),
    ),
    (
        "sd3",
        {"path": "sd3", "pipeline": "StableDiffusion3Img2ImgPipeline"},
        [TURNED],
        {**SMALL, "args": {"max_sequence_length": 12}},
        ({}, {"device_map": {"transformer": 1, "vae": 2}}),
    ),
)


def cases() -> list[Any]:
    return [
        pytest.param(recipe_of(model, parallel, images, run), id=f"{name}-{parallel}")
        for name, model, images, run, splits in CASES
        for parallel in splits
    ]


@pytest.mark.parametrize("recipe", cases())
def test_the_pictures_are_those_of_one_process(recipe: dict[str, Any], drawn: Path) -> None:
    finding = ask(recipe, drawn)
    assert finding.outcome == AGREED_YES, finding


@pytest.mark.parametrize(("pipeline", "recipe"), batch_recipes(), ids=str)
def test_several_prompts_in_a_call(pipeline: str, recipe: dict[str, Any], drawn: Path) -> None:
    """Whether one call makes what a call for each prompt makes, and of one picture or of one for each: what `check`
    goes by (DC366) and what a plan has the runtime do."""
    assert form_of(recipe, drawn) == picture_batches().get(pipeline)


def test_what_is_said_of_batches_is_what_was_run() -> None:
    assert picture_batches().keys() <= {pipeline for pipeline, _ in batch_recipes()}


COUNTED: dict[str, tuple[dict[str, Any], list[str], dict[str, Any]]] = {
    "kontext": (KONTEXT, [PICTURE], {"height": 512, "width": 768, "args": {"max_sequence_length": 12}}),
    "kontext-own": (KONTEXT, [TURNED], {**SMALL, "args": KONTEXT_ARGS}),
    "flux2": ({"path": "flux2"}, [LARGE, TURNED], {"args": FAMILIES["flux2"].args}),
    "sdxl": (
        SDXL,
        [PICTURE],
        {"args": {"strength": 0.7}},
    ),
    "flux": ({"path": "flux", "task": "image-to-image"}, [PICTURE], {**SMALL, "args": {"max_sequence_length": 12}}),
}


@pytest.mark.parametrize("name", COUNTED)
def test_the_denoiser_sees_the_tokens_that_are_counted(name: str, drawn: Path) -> None:
    model, images, run = COUNTED[name]
    recipe = recipe_of({key: value for key, value in model.items() if key != "task"}, {}, images, run)
    if "task" in model:
        recipe["run"]["task"] = model["task"]
    file = drawn / "counted.yaml"
    file.write_text(yaml.safe_dump(recipe), encoding="utf-8")
    compiled = compile_recipe(file)
    assert compiled.plan is not None, compiled.diagnostics
    subject, plan = compiled.plan.checked.subject, compiled.plan_json
    assert plan is not None
    program = plan["program"]
    pipeline = getattr(diffusers, program["pipeline"]["class"]).from_pretrained(drawn / model["path"])
    pipeline.set_progress_bar_config(disable=True)
    denoiser, seen = getattr(pipeline, program["denoisers"][0]), []

    def look(*args: Any, **kwargs: Any) -> tuple[torch.Tensor]:
        hidden = kwargs.get("hidden_states", args[0] if args else None)
        seen.append(tuple(hidden.shape))
        return (torch.zeros_like(hidden),)

    denoiser.forward = look
    row = program["run"]["rows"][0]
    generate.make(pipeline, [row], program["run"]["call"], "png", images=load_pictures(row, drawn))
    counted = subject.settings.sequence_tokens
    assert {shape[1] if len(shape) == 3 else shape[2] * shape[3] for shape in seen} == {counted}
    assert len(seen) == subject.settings.run_steps
