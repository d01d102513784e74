"""What one plain diffusers process makes of a recipe: nothing of dcompile takes part."""

from __future__ import annotations

import inspect
import json
import random
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import torch
import transformers

from . import processes
from .runtime import LIMIT_SECONDS, Made, Result, capture_latents, capture_sound

_CALL = {"height": "height", "width": "width", "frames": "num_frames", "steps": "num_inference_steps"}
_cache: dict[str, Result] = {}


def run_recipe(recipe: dict[str, Any], root: Path) -> Result:
    """Every row of a recipe alone, one after the other; remembered by what pictures depend on."""
    own = {key: recipe.get(key) for key in ("model", "run")}
    own["run"] = {key: value for key, value in recipe["run"].items() if key != "batch"}
    own["dtypes"] = dtypes_of(recipe)
    own["components"] = {
        name: part and [part.get("attention"), part.get("tiling"), part.get("quantize")]
        for name, part in recipe.get("components", {}).items()
    }
    key = json.dumps(own, sort_keys=True)
    if key not in _cache:
        answer = processes.run(1, lambda _: _make(recipe, root), LIMIT_SECONDS)[0]
        ranks = () if answer.error is not None else (answer.value,)
        _cache[key] = Result(ranks, answer.error, answer.traceback)
    return _cache[key]


def dtypes_of(recipe: dict[str, Any]) -> dict[str, str]:
    """The dtype of each component that has its own, and of the rest."""
    own = {name: part["dtype"] for name, part in recipe.get("components", {}).items() if part and part.get("dtype")}
    return {"default": recipe["model"].get("dtype") or "float32", **own}


def rows_of(run: dict[str, Any]) -> list[tuple[str, int]]:
    """Prompt and seed of every picture, in order."""
    repeats = run.get("images_per_prompt", 1)
    first = run.get("seeds") or [run.get("seed", 0) + index * repeats for index in range(len(run["prompts"]))]
    return [
        (prompt, seed + again) for prompt, seed in zip(run["prompts"], first, strict=True) for again in range(repeats)
    ]


def _make(recipe: dict[str, Any], root: Path) -> Made:
    pipeline = _load(recipe, root)
    latents, sound = capture_latents(pipeline), capture_sound(pipeline)
    run, accepted = recipe["run"], inspect.signature(pipeline.__call__).parameters
    call: dict[str, Any] = {name: run[key] for key, name in _CALL.items() if key in run}
    if "guidance" in run:
        call["guidance_scale"] = run["guidance"]
    if "true_cfg" in run:
        call["true_cfg_scale" if "true_cfg_scale" in accepted else "guidance_scale"] = run["true_cfg"]
    if "negative_prompt" in run or "true_cfg" in run:
        call["negative_prompt"] = run.get("negative_prompt", "")
    # A script would write a pair of sizes, or of coordinates, as a tuple.
    pairs = ("_size", "_top_left")
    call |= {name: tuple(value) if name.endswith(pairs) else value for name, value in run.get("args", {}).items()}
    if "images" in run:
        images = [diffusers.utils.load_image(str(root / name)) for name in run["images"]]
        call["image"] = images[0] if len(images) == 1 else images
    made: Made = {}
    for index, (prompt, seed) in enumerate(rows_of(run)):
        torch.manual_seed(seed)
        np.random.seed(seed)
        random.seed(seed)
        generator = torch.Generator("cpu").manual_seed(seed)
        with torch.inference_mode():
            result = pipeline(prompt=prompt, generator=generator, output_type="np", **call)
        output = next(result[name] for name in ("frames", "images", "image") if name in result)
        made[index] = (latents[-1][0], np.asarray(output[0]), *(heard[0] for heard in sound[-1:]))
    return made


def _load(recipe: dict[str, Any], root: Path) -> Any:
    model = recipe["model"]
    dtypes = {name: getattr(torch, dtype) for name, dtype in dtypes_of(recipe).items()}
    left_out = {name: None for name, part in recipe.get("components", {}).items() if part is None}
    pipeline_class = getattr(diffusers, model.get("pipeline", "DiffusionPipeline"))
    options = left_out | _quantizing(recipe, root / model["path"])
    pipeline = pipeline_class.from_pretrained(root / model["path"], dtype=dtypes, **options)
    if model.get("scheduler"):
        settings = dict(model["scheduler"])
        scheduler_class = getattr(diffusers, settings.pop("class", type(pipeline.scheduler).__name__))
        pipeline.scheduler = scheduler_class.from_config(pipeline.scheduler.config, **settings)
    adapters = model.get("adapters", [])
    for number, adapter in enumerate(adapters):
        second = {"load_into_transformer_2": True} if adapter.get("component") == "transformer_2" else {}
        pipeline.load_lora_weights(root / adapter["path"], adapter_name=f"a{number}", **second)
    if adapters:
        weights = [adapter.get("weight", 1.0) for adapter in adapters]
        pipeline.set_adapters([f"a{number}" for number in range(len(adapters))], weights)
    for name, part in recipe.get("components", {}).items():
        if part and part.get("attention") and _has_choice(getattr(pipeline, name)):
            getattr(pipeline, name).set_attention_backend(part["attention"])
        if part and part.get("tiling"):
            getattr(pipeline, name).enable_tiling()
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def _quantizing(recipe: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The argument for the components that are to be quantized by torchao, as its documentation has it."""
    from torchao.quantization import Float8WeightOnlyConfig, Int8WeightOnlyConfig

    types = {
        "int8wo": Int8WeightOnlyConfig(),
        "float8wo": Float8WeightOnlyConfig(),
        "float8wo_e5m2": Float8WeightOnlyConfig(weight_dtype=torch.float8_e5m2),
    }
    index = diffusers.DiffusionPipeline.load_config(folder)
    mapping = {
        name: (transformers if index[name][0] == "transformers" else diffusers).TorchAoConfig(
            types[part["quantize"].get("type") or "int8wo"]
        )
        for name, part in recipe.get("components", {}).items()
        if part and part.get("quantize")
    }
    return {"quantization_config": diffusers.PipelineQuantizationConfig(quant_mapping=mapping)} if mapping else {}


def _has_choice(model: Any) -> bool:
    """Whether a layer of the model looks at its backend."""
    return any(hasattr(getattr(module, "processor", None), "_attention_backend") for module in model.modules())
