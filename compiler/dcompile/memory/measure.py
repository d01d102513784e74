"""Writes `models/activations.json`: how many bytes the components hold at their fullest moment beside their weights.

    python -m dcompile.memory.measure [CLASS ...]

The real classes with their published configurations run on the meta device (`memory/measure_meta.py`), once for each of
a few sizes, and the storages alive are counted (`memory/live_storages.py`). The peaks are fitted to the terms that
`memory/activations.py` explains. No weights, no network; no stage of the compiler imports this.

It measures what the file does not have yet, smallest models first, and CLASS again; everything where the file is of
other versions. The file is written after each, so the command can be stopped and started. What fails is said, the rest
goes on, and the exit code is 1.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import diffusers
import torch
import transformers

from dcompile.core.files import write_whole
from dcompile.facts.data_json import render
from dcompile.facts.registry import MODELS, known_models, load_model, read_json
from dcompile.facts.types import ComponentFacts, ModelFacts
from dcompile.layout.shard import count_parameters
from dcompile.memory.activations import FILE, shape_config
from dcompile.memory.measure_denoiser import measure_denoiser
from dcompile.memory.measure_encoder import measure_encoder
from dcompile.memory.measure_meta import on_meta
from dcompile.memory.measure_vae import measure_vae
from dcompile.memory.peaks import AFTERWARDS

MODES = ("whole", "decode", "text", "text_float32", "tensor", "context", "encode", "decode_tiled", "encode_tiled")
"""In the order in which they are measured: what every job needs comes first."""

Modes = dict[str, dict[str, dict[str, float]]]
"""By component (`black-forest-labs/FLUX.1-dev vae`) and mode."""


def distinct(names: Iterable[str]) -> Iterator[tuple[ModelFacts, str, ComponentFacts]]:
    """Each component whose peaks may differ from those before it."""
    seen = set()
    for model_id in names:
        model = load_model(model_id)
        for name, component in model.components.items():
            config = shape_config(component, name in model.denoisers)
            key = json.dumps([component.class_name, config], sort_keys=True)
            if key not in seen:
                seen.add(key)
                yield model, name, component


def modes_of(model: ModelFacts, name: str, component: ComponentFacts) -> tuple[str, ...]:
    """The ways in which a component can run, as far as they are measured."""
    if name in AFTERWARDS:
        return ()
    if name == "vae":
        return "decode", "decode_tiled", "encode", "encode_tiled"
    if name not in model.denoisers:
        return "text", "text_float32"
    splits = ("tensor",) * bool(component.tensor_plan) + ("context",) * component.context_plan
    return ("whole", *splits)


def measure(model: ModelFacts, name: str, component: ComponentFacts, mode: str) -> dict[str, float]:
    """Coefficients of one mode: bytes by term in bfloat16, and `error`; where they were measured the ratios `float32`
    and `cpu`."""
    with on_meta():
        if name == "vae":
            return measure_vae(model, component, mode)
        if name in model.denoisers:
            return measure_denoiser(model, component, mode)
        return measure_encoder(component, mode)


def main(again: Sequence[str] = ()) -> int:
    """Measures what is missing, and the classes named; returns the exit code."""
    logging.disable(logging.WARNING)
    versions = {"torch": torch.__version__.partition("+")[0], "diffusers": diffusers.__version__}
    versions["transformers"] = transformers.__version__
    known = read_json(MODELS / FILE) if (MODELS / FILE).exists() else {}
    kept = known.get("entries", []) if all(known.get(key) == value for key, value in versions.items()) else []
    modes: Modes = {entry["of"]: entry["modes"] for entry in kept}
    parts = sorted(distinct(sorted(known_models())), key=lambda part: count_parameters(part[2]))
    missing = [
        (part, mode)
        for mode in MODES
        for part in parts
        if mode in modes_of(*part)
        and (part[2].class_name in again or mode not in modes.get(f"{part[0].id} {part[1]}", {}))
    ]
    failed = 0
    for number, ((model, name, component), mode) in enumerate(missing, 1):
        of, start = f"{model.id} {name}", time.monotonic()
        said = f"[{number}/{len(missing)}] {component.class_name} {mode} ({of})"
        try:
            found = measure(model, name, component, mode)
        except Exception as fault:  # of whatever class: the others are measured all the same
            failed += 1
            print(f"{said}: FAILED, {type(fault).__name__}: {fault}", flush=True)
            continue
        print(f"{said}: {time.monotonic() - start:.1f} s, {100 * found['error']:.2f} % off", flush=True)
        modes.setdefault(of, {})[mode] = found
        write_whole(MODELS / FILE, render({"about": ABOUT, **versions, "entries": entries(modes)}) + "\n")
    if failed:
        print(f"{failed} of {len(missing)} failed", flush=True)
    return 1 if failed else 0


def entries(modes: Modes) -> list[dict[str, Any]]:
    """What was measured, in the order of the models and of `MODES`."""
    found = []
    for model, name, component in distinct(sorted(known_models())):
        own = modes.get(f"{model.id} {name}")
        if own:
            config = shape_config(component, name in model.denoisers)
            in_order = {mode: own[mode] for mode in MODES if mode in own}
            of = f"{model.id} {name}"
            found.append({"class": component.class_name, "of": of, "config": config, "modes": in_order})
    return found


ABOUT = (
    "Peak bytes beside the weights, from the real classes on the meta device; generated by dcompile.memory.measure. "
    "A peak is the sum of coefficient times term; `error` is the largest relative error of the fit, `float32` "
    "the ratio of a peak in that dtype to one in bfloat16, `cpu` what a CPU's convolutions make of that."
)

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
