"""Facts of a diffusers pipeline folder on this machine, from its JSON files and weight headers. Imports no torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any

from dcompile.facts.errors import FactsError
from dcompile.facts.grouping import group_parameters, stacked_blocks
from dcompile.facts.registry import MODELS, read_json
from dcompile.facts.safetensors import read_header, read_json_file, weight_files
from dcompile.facts.types import ComponentFacts, ModelFacts, TensorStyle

__all__ = ["FactsError", "component_of_folder", "facts_of_folder"]

_DENOISERS = ("transformer", "transformer_2", "unet", "prior")
# Persistent buffers: in the weight files, but no parameters.
_BUFFERS = ("position_ids", "running_mean", "running_var", "num_batches_tracked", "inv_freq")
_UNKNOWN_CLASS: dict[str, Any] = {
    "tensor_plan": [],
    "sizes": {},
    "context_plan": False,
    "context_splits_text": False,
    "heads": None,
    "no_split": [],
    "blocks": None,
    "config_defaults": {},
}
_UNKNOWN_PIPELINE: dict[str, Any] = {
    "family": "other",
    "size": None,
    "patch": 1,
    "frames": 0,
    "multiple": 1,
    "text_limit": 0,
    "call_args": {},
}
_NOT_A_PIPELINE = "a pipeline folder is what `pipeline.save_pretrained(...)` writes; `model.path` must name one"


@lru_cache(maxsize=1)
def _classes() -> dict[str, Any]:
    return dict(read_json(MODELS / "classes.json")["classes"])


@lru_cache(maxsize=1)
def _pipelines() -> dict[str, Any]:
    return dict(read_json(MODELS / "pipelines.json")["pipelines"])


def facts_of_folder(path: Path, variant: str | None = None) -> ModelFacts:
    """The facts of a local diffusers pipeline.

    Args:
        path: the folder that holds `model_index.json`.
        variant: the variant of the weight files, such as `fp16`, where there are several.

    Raises:
        FactsError: where a file is missing, damaged or cut off.
    """
    if not (path / "model_index.json").is_file():
        what = "is no folder" if not path.is_dir() else "holds no `model_index.json`"
        raise FactsError(f"`{path}` {what}", _NOT_A_PIPELINE)
    index = read_json_file(path / "model_index.json")
    pipeline_class = index.get("_class_name")
    if not isinstance(pipeline_class, str):
        raise FactsError(f"`{path / 'model_index.json'}` does not name its pipeline class", _NOT_A_PIPELINE)
    pipeline = _pipelines().get(pipeline_class, _UNKNOWN_PIPELINE)
    components, scheduler = {}, {}
    for name, entry in index.items():
        if not (isinstance(entry, list) and len(entry) == 2 and all(isinstance(part, str) for part in entry)):
            continue
        library, class_name = entry
        if name == "scheduler":
            config = read_json_file(path / name / "scheduler_config.json")
            scheduler = {"class": class_name, **_public(config)}
        elif (path / name / "config.json").is_file():
            components[name] = component_of_folder(path / name, class_name, library, variant)
        elif name in _DENOISERS or name.startswith(("vae", "text_encoder")):
            raise FactsError(f"`{path / name / 'config.json'}` is missing", "copy or download it there")
    tokens = _tokens(pipeline, components)
    return ModelFacts(
        id=path.name,
        family=pipeline["family"],
        pipeline=pipeline_class,
        components=components,
        denoisers=tuple(name for name in _DENOISERS if name in components),
        scheduler=scheduler,
        tokens=tokens,
        call_args=dict(pipeline["call_args"]),
        defaults=_defaults(pipeline, components),
        diffusers=read_json(MODELS / "pipelines.json")["diffusers"] if pipeline["call_args"] else "",
        source=f"the configs and weight headers in {path.name}",
        pipeline_config={
            name: value for name, value in index.items() if not name.startswith("_") and not isinstance(value, list)
        },
    )


def component_of_folder(
    folder: Path, class_name: str, library: str = "diffusers", variant: str | None = None
) -> ComponentFacts:
    """The facts of one component's folder.

    Raises:
        FactsError: where a file is missing, damaged or cut off.
    """
    config = _public(read_json_file(folder / "config.json"))
    tensors: dict[str, tuple[tuple[int, ...], str]] = {}
    for file in weight_files(folder, variant):
        tensors |= read_header(file)
    tied = _tied(tensors, _flat(config))
    shapes = {
        name: shape
        for name, (shape, _) in tensors.items()
        if name.rpartition(".")[2] not in _BUFFERS and name not in tied
    }
    sizes: Counter[str] = Counter()
    for name, shape in shapes.items():
        sizes[tensors[name][1]] += prod(shape)
    known = _classes().get(class_name, _UNKNOWN_CLASS)
    settings = known["config_defaults"] | _flat(config)
    stacks = dict(stacked_blocks(list(shapes)))
    wanted = known["blocks"] if known["blocks"] is not None else [name for name, count in stacks.items() if count > 1]
    return ComponentFacts(
        class_name=class_name,
        library=library,
        config=config,
        parameters=group_parameters(shapes),
        tensor_plan=_tensor_plan(known, settings),
        heads=(_whole(settings.get(known["heads"])) or None) if known["heads"] else None,
        blocks=tuple((name, stacks[name]) for name in wanted if name in stacks),
        context_plan=known["context_plan"],
        context_splits_text=known["context_splits_text"],
        no_split=tuple(known["no_split"]),
        dtype=sizes.most_common(1)[0][0] if sizes else None,
    )


def _tied(tensors: Collection[str], config: dict[str, Any]) -> set[str]:
    """Names under which some files repeat a weight that the model holds once."""
    tied = set()
    if "shared.weight" in tensors:
        tied |= {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"}
    if config.get("tie_word_embeddings") is True:
        tied.add("lm_head.weight")
    return tied


def _public(config: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if not key.startswith("_")}


def _flat(config: dict[str, Any]) -> dict[str, Any]:
    """The config with the keys of its text model, where that is one part of it."""
    text = config.get("text_config")
    return config | text if isinstance(text, dict) else config


def _whole(value: object, otherwise: int = 0) -> int:
    """A positive whole number of a config, or `otherwise` where the file has something else."""
    return value if isinstance(value, int) and value > 0 else otherwise


def _tensor_plan(known: dict[str, Any], settings: dict[str, Any]) -> tuple[TensorStyle, ...]:
    """The class's plan with the sizes of fused parts that this config gives."""
    sizes = {}
    for name, factors in known["sizes"].items():
        found = [settings.get(factor) if isinstance(factor, str) else factor for factor in factors]
        numbers = [number for number in found if isinstance(number, (int, float)) and number > 0]
        if len(numbers) < len(found):
            return ()
        sizes[name] = int(prod(numbers))
    return tuple(
        TensorStyle(module, style, tuple(sizes.get(block, block) for block in blocks))
        for module, style, blocks in known["tensor_plan"]
    )


def _latent_pixels(components: dict[str, ComponentFacts]) -> int:
    """Pixels on the side of one latent, as the pipelines derive them from the autoencoder's config."""
    vae = components.get("vae")
    if vae is None:
        return 8
    config = vae.config
    levels = config.get("block_out_channels")
    if "temperal_downsample" in config:
        halvings = config["temperal_downsample"]
        default = 2 ** len(halvings) if isinstance(halvings, list) and len(halvings) < 8 else 8
        return _whole(config.get("scale_factor_spatial"), default)
    if "LTX" in vae.class_name:
        return _whole(config.get("spatial_compression_ratio"), 32)
    return int(2 ** (len(levels) - 1)) if isinstance(levels, list) and 0 < len(levels) < 9 else 8


def _tokens(pipeline: dict[str, Any], components: dict[str, ComponentFacts]) -> dict[str, int]:
    latent = _latent_pixels(components)
    spatial = latent * pipeline["patch"]
    limit = pipeline["text_limit"]
    default = pipeline["call_args"].get("max_sequence_length") or limit or 77
    frames = _whole(components["vae"].config.get("scale_factor_temporal") if "vae" in components else None)
    return {
        "spatial": spatial,
        "frames": (frames or pipeline["frames"]) if pipeline["frames"] else 0,
        "multiple": pipeline["multiple"] or spatial,
        "text": limit or default,
        "text_default": default,
        "text_limit": limit,
    }


def _defaults(pipeline: dict[str, Any], components: dict[str, ComponentFacts]) -> dict[str, Any]:
    """What a call uses when it is not told, as far as signature and configs say."""
    call = pipeline["call_args"]
    denoiser = next((components[name] for name in _DENOISERS if name in components), None)
    sample = _whole(denoiser.config.get("sample_size")) if denoiser is not None else 0
    side = (pipeline["size"] or sample) * _latent_pixels(components) or None
    defaults = {
        "height": call.get("height") or side,
        "width": call.get("width") or side,
        "frames": call.get("num_frames") or 1,
        "steps": call.get("num_inference_steps"),
        "guidance": call.get("guidance_scale"),
    }
    if "true_cfg_scale" in call:
        defaults["true_cfg"] = call["true_cfg_scale"]
    return defaults
