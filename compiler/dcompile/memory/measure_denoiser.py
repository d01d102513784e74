"""Peaks of a denoiser's call, whole and split, for `memory/measure.py`. Imports torch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import torch

from dcompile.facts.types import ComponentFacts, ModelFacts
from dcompile.layout.clips import chunk_of, history_tokens
from dcompile.layout.shard import undivided
from dcompile.memory.activations import DEPTHS, Call, call_terms
from dcompile.memory.fitting import Sample, fit
from dcompile.memory.live_storages import Workspace, cpu_convolution
from dcompile.memory.measure_inputs import Shape, denoiser_inputs
from dcompile.memory.measure_meta import Run, build, peak_bytes
from dcompile.memory.measure_splits import context_of, tensor_of

Way = tuple[dict[str, Any], AbstractContextManager[Callable[[Any], Any]]]
"""The split arguments of `Call`, and a group of ranks that gives what splits a model."""


def shallow(config: dict[str, Any], depth: int) -> dict[str, Any]:
    """The config with every stack cut to `depth` blocks."""
    cut = {key: min(depth, value) for key, value in config.items() if key in DEPTHS and isinstance(value, int)}
    if "llama_layers" in config:  # HiDream: a text for every block
        return config | cut | {"llama_layers": config["llama_layers"][: sum(cut.values())]}
    return config | cut


def denoiser_shapes(model: ModelFacts, component: ComponentFacts) -> list[Shape]:
    """Sizes from 576 to 110,000 tokens; the smaller ones of a UNet are those of 512 pixels."""
    config, text = component.config, model.tokens["text_default"]
    texts = (text, text, text) if config.get("max_text_seq_length") else None
    if component.class_name == "HiDreamImageTransformer2DModel":  # it fills up a picture that is no square
        squares = ((1, 24), (2, 32), (1, 48), (2, 48), (1, 64), (2, 64))
        return [Shape(batch, side, side, text) for batch, side in squares]
    full, half, fourth = texts or (text, text // 2, text // 4)
    sides = (64, 96, 128, 192) if model.tokens["spatial"] == 8 else (24, 48, 64, 96)
    a, b, c, d = sides
    few, some, many = (3, 5, 9) if model.tokens["frames"] else (1, 1, 1)
    if "UNet" in component.class_name or "vace_layers" in config:  # many blocks, and exactly by the number of tokens
        sizes = ((1, a, a), (2, b, b), (1, b, c), (2, a, c), (1, 2 * d, 2 * d))
        return [Shape(batch, rows, columns, text, few) for batch, rows, columns in sizes]
    shapes = [
        Shape(1, a, a, full, some),
        Shape(1, c, b, fourth, many),
        Shape(2, b, b, full, some),
        Shape(1, d, d, half, few),
        Shape(1, b, c, full, few),
        Shape(2, a, c, half, few),
        Shape(1, d, c, full, some),
        Shape(1, 2 * d, 2 * d, full, few),
    ]
    chunk = chunk_of(model, {})
    if chunk is None:
        return shapes
    return [
        replace(shape, frames=chunk.frames, history=history_tokens(chunk, shape.rows, shape.columns))
        for shape in shapes
    ]


def denoiser_call(built: Any, config: dict[str, Any], shape: Shape, dtype: str) -> Run:
    """A call of a built denoiser."""
    inputs = denoiser_inputs(type(built).__name__, config, shape, getattr(torch, dtype))
    experts = config.get("num_routed_experts", 0), config.get("num_activated_experts", 0)
    if "llama_layers" in config:  # HiDream reads the sides of each picture from a tensor, but where it is trained
        built.unpatchify = lambda tokens, sizes, _: type(built).unpatchify(built, tokens, sizes, True)
    return Run(lambda: built(**inputs, return_dict=False), inputs, shape.text, experts=experts)


def _peak(built: Any, config: dict[str, Any], shape: Shape, dtype: str, workspace: Workspace | None = None) -> int:
    return peak_bytes(built, denoiser_call(built, config, shape, dtype), workspace)


def short_config(component: ComponentFacts, shape: Shape) -> dict[str, Any]:
    """A denoiser's config with few blocks, where more take no more; else its own, as something is kept from block to
    block, or the class's context plan names every one."""
    config, name = component.config, component.class_name
    if "vace_layers" in config or "UNet" in name or name == "HeliosTransformer3DModel":
        return config
    least = config.get("inject_face_latents_blocks", 2)  # WanAnimate: the first block of so many is larger
    few, more = (shallow(config, depth) for depth in (least, 3 * least))
    one, other = (_peak(build(name, "diffusers", cut, "bfloat16"), cut, shape, "bfloat16") for cut in (few, more))
    return few if one == other else config


def measure_denoiser(model: ModelFacts, component: ComponentFacts, mode: str) -> dict[str, float]:
    """Coefficients of one mode; with the ratio of float32 where the model is whole."""
    shapes = denoiser_shapes(model, component)
    config = short_config(component, shapes[0])

    def samples(split: dict[str, Any], prepare: Callable[[Any], Any], shapes: list[Shape]) -> list[Sample]:
        built = build(component.class_name, "diffusers", config, "bfloat16")
        prepare(built)
        calls = [Call(shape.batch, shape.image, shape.text, **split) for shape in shapes]
        return [
            Sample(call_terms(call), _peak(built, config, shape, "bfloat16"))
            for call, shape in zip(calls, shapes, strict=True)
        ]

    if mode == "whole":
        found = samples({}, lambda _: None, shapes)
        built = build(component.class_name, "diffusers", config, "float32")
        single = _peak(built, config, shapes[2], "float32")
        ratios = {"float32": round(single / found[2].peak_bytes, 4)}
        if any(isinstance(module, torch.nn.Conv2d) for module in built.modules()):
            on_cpu = _peak(built, config, shapes[2], "float32", cpu_convolution)
            ratios |= {"cpu": round(on_cpu / single, 4)}
        return fit(found) | {key: ratio for key, ratio in ratios.items() if key != "cpu" or ratio > 1}
    of_ways = []
    for split, group in _ways(component, mode):
        with group as prepare:
            of_ways += samples(split, prepare, shapes[:4])
    return fit(of_ways)


def _ways(component: ComponentFacts, mode: str) -> list[Way]:
    """The degrees that stand for a split."""
    if mode == "tensor":
        degrees = [degree for degree in (2, 4) if not undivided(component, degree)]
        return [({"tensor": degree}, tensor_of(component, degree)) for degree in degrees]
    text = component.context_splits_text
    return [
        ({"ulysses": ulysses, "ring": ring, "splits_text": text}, context_of(ulysses, ring))
        for ulysses, ring in ((2, 1), (1, 2), (2, 2))
    ]
