"""What a pipeline class and the configs of its components say together: tokens, defaults and guidance.

One home for known models (the generator calls these) and for folders on this machine. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from dcompile.facts.registry import MODELS, read_json
from dcompile.facts.types import ComponentFacts

DENOISERS = ("transformer", "transformer_2", "unet", "prior")
UNKNOWN_PIPELINE: dict[str, Any] = {
    "family": "other",
    "size": None,
    "patch": 1,
    "frames": 0,
    "multiple": 1,
    "text_limit": 0,
    "branches": None,
    "takes_guidance": False,
    "conditions": None,
    "pictures": [],
    "default_size": None,
    "default_frames": None,
    "fps": None,
    "adapters": None,
    "no_plain_value": [],
    "call_args": {},
}


@lru_cache(maxsize=1)
def _table() -> dict[str, Any]:
    return dict(read_json(MODELS / "pipelines.json"))


def peft_versions() -> tuple[str, str]:
    """The version of peft that was tried, and the one that transformers wants for adapters of its own models."""
    versions = _table()["peft"]
    return versions["tried"], versions["encoders_need"]


def describe_pipeline(class_name: str) -> dict[str, Any]:
    """The entry of a pipeline class; one that says nothing where the class is not known."""
    return dict(_table()["pipelines"].get(class_name, UNKNOWN_PIPELINE))


def knows_pipeline(class_name: str) -> bool:
    """Whether diffusers has the pipeline class."""
    return class_name in _table()["pipelines"]


def denoisers_of(components: Mapping[str, ComponentFacts]) -> tuple[str, ...]:
    """The components that are called once per step, in the order in which they are used."""
    return tuple(name for name in DENOISERS if name in components)


def whole(value: object, otherwise: int = 0) -> int:
    """A positive whole number of a config, or `otherwise` where the file has something else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else otherwise


def latent_pixels(components: Mapping[str, ComponentFacts]) -> int:
    """Pixels on the side of one latent, as the pipelines derive them from the autoencoder's config."""
    vae = components.get("vae")
    if vae is None:
        return 8
    config = vae.config
    if "temperal_downsample" in config:
        halvings = config["temperal_downsample"]
        default = 2 ** len(halvings) if isinstance(halvings, list) and len(halvings) < 8 else 8
        return whole(config.get("scale_factor_spatial"), default)
    if "LTX" in vae.class_name:
        return whole(config.get("spatial_compression_ratio"), 32)
    if "HunyuanVideo" in vae.class_name or "Mochi" in vae.class_name:
        return whole(config.get("spatial_compression_ratio"), 8)
    levels = config.get("encoder_block_out_channels" if vae.class_name == "AutoencoderDC" else "block_out_channels")
    return int(2 ** (len(levels) - 1)) if isinstance(levels, list) and 0 < len(levels) < 9 else 8


def tokens_of(pipeline: Mapping[str, Any], components: Mapping[str, ComponentFacts]) -> dict[str, int]:
    """The numbers of the token formula, see `ModelFacts.tokens`."""
    spatial = latent_pixels(components) * pipeline["patch"]
    limit = pipeline["text_limit"]
    default = pipeline["call_args"].get("max_sequence_length") or limit or pipeline.get("text") or 77
    frames = whole(components["vae"].config.get("scale_factor_temporal") if "vae" in components else None)
    denoiser = next((components[name] for name in denoisers_of(components)), None)
    return {
        "spatial": spatial,
        "frames": (frames or pipeline["frames"]) if pipeline["frames"] else 0,
        "frames_patch": whole(denoiser.config.get("patch_size_t"), 1) if denoiser is not None else 1,
        "rounds_frames": int(pipeline.get("rounds_frames", False)),
        "multiple": pipeline["multiple"] or spatial,
        "text": limit or default,
        "text_default": default,
        "text_limit": limit,
        **({"floors": pipeline["floors"]} if "floors" in pipeline else {}),
    }


def defaults_of(pipeline: Mapping[str, Any], components: Mapping[str, ComponentFacts]) -> dict[str, Any]:
    """What a call uses when it is not told, as far as signature and configs say."""
    call = pipeline["call_args"]
    names = denoisers_of(components)
    config = components[names[0]].config if names else {}
    pixels = latent_pixels(components)
    side = pipeline["size"] or whole(config.get("sample_size"))
    own = pipeline["default_size"] or (None, None)
    defaults = {
        "height": call.get("height") or own[0] or (whole(config.get("sample_height")) or side) * pixels or None,
        "width": call.get("width") or own[1] or (whole(config.get("sample_width")) or side) * pixels or None,
        "frames": call.get("num_frames") or pipeline["default_frames"] or whole(config.get("sample_frames"), 1),
        "steps": call.get("num_inference_steps"),
        "guidance": call.get("guidance_scale"),
        "fps": call.get("frame_rate") or pipeline["fps"],
    }
    if "true_cfg_scale" in call:
        defaults["true_cfg"] = call["true_cfg_scale"]
    return defaults


def guidance_of(pipeline: Mapping[str, Any], components: Mapping[str, ComponentFacts]) -> dict[str, Any]:
    """How guidance is done, see `ModelFacts.guidance`."""
    names = denoisers_of(components)
    config = components[names[0]].config if names else {}
    # Flux2's published config leaves the key out and its class has it on by default.
    embeds = config.get("guidance_embeds", names and components[names[0]].class_name == "Flux2Transformer2DModel")
    above = {"above": pipeline["above"]} if "above" in pipeline else {}
    return {"embedded": bool(embeds) and pipeline["takes_guidance"], "branches": pipeline["branches"], **above}


def fields_of(pipeline: Mapping[str, Any], components: Mapping[str, ComponentFacts]) -> dict[str, Any]:
    """The fields of `ModelFacts` that follow from a class, as `describe_pipeline` has it, and its components."""
    return {
        "family": pipeline["family"],
        "components": components,
        "denoisers": denoisers_of(components),
        "tokens": tokens_of(pipeline, components),
        "guidance": guidance_of(pipeline, components),
        "conditions": pipeline["conditions"],
        "pictures": tuple(pipeline["pictures"]),
        "call_args": dict(pipeline["call_args"]),
        "defaults": defaults_of(pipeline, components),
    }
