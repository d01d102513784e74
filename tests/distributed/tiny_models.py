"""Tiny pipelines with random weights, and plans for them written by hand: the runtime's input, without a compiler."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from oracle.zoo import PROMPTS, flux, lora, wan

COMPONENTS = {
    "transformer": ("FluxTransformer2DModel", "diffusers"),
    "vae": ("AutoencoderKL", "diffusers"),
    "text_encoder": ("CLIPTextModel", "transformers"),
    "text_encoder_2": ("T5EncoderModel", "transformers"),
}
save_flux = flux.save


def plan(
    model: str,
    *,
    axes: dict[str, int] | None = None,
    rows: int = 2,
    components: dict[str, dict[str, Any]] | None = None,
    devices_per_rank: int = 1,
    call: dict[str, Any] | None = None,
    batch: int = 1,
    pipeline: dict[str, Any] | None = None,
    out: Path | str = "out",
    classes: dict[str, tuple[str, str]] | None = None,
) -> dict[str, Any]:
    """A plan for a tiny pipeline; `components` changes what the plan says about one component."""
    axes = axes or {}
    ranks = 1
    for degree in axes.values():
        ranks *= degree
    replicas = axes.get("data", 1)
    parts = {
        name: {
            "class": class_name,
            "library": library,
            "dtype": "float32",
            "id": None,
            "path": None,
            "omit": False,
            "attention": "native" if name == "transformer" else None,
            "quantize": None,
            "tiling": False,
            "device": 0,
            "blocks": None,
            "offload": None,
            "tensor": None,
            "context": None,
            **((components or {}).get(name, {})),
        }
        for name, (class_name, library) in (classes or COMPONENTS).items()
    }
    each, extra = divmod(rows, replicas)
    starts = [replica * each + min(replica, extra) for replica in range(replicas + 1)]
    return {
        "format_version": 1,
        "tool_version": "0",
        "name": "tiny",
        "recipe_digest": f"sha256:{'0' * 64}",
        "requires": {},
        "strategy": "single",
        "mesh": axes,
        "components": {},
        "devices": [],
        "traffic": {},
        "decisions": [],
        "program": {
            "device_kind": "cpu",
            "ranks": ranks,
            "nodes": 1,
            "ranks_per_node": ranks,
            "devices_per_rank": devices_per_rank,
            "device_ids": None,
            "device_names": None,
            "mesh_axes": [[axis, degree] for axis, degree in axes.items()],
            "timeout_seconds": 60,
            "env": {},
            "pipeline": {
                "class": "FluxPipeline",
                "id": None,
                "path": model,
                "revision": None,
                "variant": None,
                "dtype": "float32",
                "trust_remote_code": False,
                "scheduler": None,
                "adapters": [],
                **(pipeline or {}),
            },
            "denoisers": ["transformer"],
            "components": parts,
            "run": {
                "rows": [
                    {
                        "index": index,
                        "prompt": PROMPTS[index % len(PROMPTS)],
                        "negative_prompt": None,
                        "seed": 42 + index,
                        "args": {},
                    }
                    for index in range(rows)
                ],
                "batch": batch,
                "shares": [list(range(starts[i], starts[i + 1])) for i in range(replicas)],
                "call": {
                    "height": 32,
                    "width": 32,
                    "num_inference_steps": 3,
                    "guidance_scale": 3.5,
                    "max_sequence_length": 8,
                    **(call or {}),
                },
            },
            "output": {"dir": str(out), "name": "{index:05d}", "format": "png", "fps": None},
        },
    }


def tensor_layout(model: type, folder: Path, degree: int) -> dict[str, Any]:
    """The plan's `tensor` entry from the class's own `_tp_plan`, worked out here on a real model."""
    from diffusers.hooks.tensor_parallel import resolve_tp_shard_specs

    loaded = model.from_pretrained(folder)  # type: ignore[attr-defined]
    specs = resolve_tp_shard_specs(loaded, model._tp_plan, degree)  # type: ignore[attr-defined]
    styles = {}
    for pattern, style in model._tp_plan.items():  # type: ignore[attr-defined]
        text = (
            style
            if isinstance(style, str)
            else {"PackedColwiseParallel": "packed_colwise"}.get(type(style).__name__, "packed_rowwise")
        )
        styles[pattern] = {"style": text, "blocks": []}
    parameters = {
        name: {"dim": spec.dim, "parts": list(spec.block_sizes)} for name, spec in specs.items() if spec.dim is not None
    }
    return {"degree": degree, "plan": "builtin", "styles": styles, "parameters": parameters}


def context_layout(ring: int = 1, ulysses: int = 1, uneven: bool = False) -> dict[str, Any]:
    """The plan's `context` entry."""
    return {"ring": ring, "ulysses": ulysses, "uneven": uneven}


def write_plan(content: dict[str, Any], folder: Path) -> Path:
    """Writes a plan where the compiler would."""
    path = folder / "build" / content["name"] / "plan.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


WAN_COMPONENTS = {
    "transformer": ("WanTransformer3DModel", "diffusers"),
    "vae": ("AutoencoderKLWan", "diffusers"),
    "text_encoder": ("UMT5EncoderModel", "transformers"),
}
save_wan = wan.save


def save_lora(folder: Path, model: Path) -> Path:
    """Saves a LoRA for the tiny Flux that changes its pictures."""
    return lora.save(folder, model, flux.FLUX)
