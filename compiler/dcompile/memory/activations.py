"""Peaks of activations from `models/activations.json`: pure arithmetic.

A peak is a sum of coefficients in bytes times terms. The terms of a denoiser's call:

- `call`: 1; `samples`: the batch
- `image_once`, `text_once`: tokens, whatever the batch (positions)
- `image`, `text`: tokens times batch; under context parallelism those of a rank
- `pairs`: all tokens squared times batch, where a class makes its mask for every pair; `pairs_once` whatever the batch
- `image_shared`, `text_shared`: `image` and `text` over the tensor degree: what is split with the heads
- `gathered`: keys and values of all tokens, which the ring gathers, over the Ulysses degree
- `ringed`, `exchanged`: a rank's tokens times batch, where there is a ring, and where Ulysses exchanges heads
- `unsplit`: under context parallelism all image tokens times batch, where a class splits them for some layers alone

and those of an autoencoder: `call`, `samples`, `pixels` (of one frame, times batch), `frame_pixels` (times frames), and
with tiles `tiles` (pixels of a tile, times batch) and `frame_tiles` in place of `samples`. An encoder of texts has
`call`, `samples`, `text`, `pairs` and `pairs_once`; one whose input has always one size the first two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from dcompile.facts.registry import MODELS, read_json
from dcompile.facts.types import ComponentFacts

FILE = "activations.json"


@dataclass(frozen=True)
class Call:
    """One call of a denoiser on one rank. `image` and `text` count the whole sample's tokens."""

    batch: int
    image: int
    text: int
    tensor: int = 1
    ulysses: int = 1
    ring: int = 1
    splits_text: bool = True


@dataclass(frozen=True)
class Clip:
    """What an autoencoder takes in or gives out in one call; `frames` is 0 for pictures."""

    batch: int
    height_px: int
    width_px: int
    frames: int


@dataclass(frozen=True)
class Texts:
    """What an encoder takes in one call: prompts of so many tokens, or pictures of its own size."""

    batch: int
    tokens: int


def call_terms(call: Call) -> dict[str, float]:
    """The value of every term of a call."""
    context = call.ulysses * call.ring
    image, text = call.image / context, call.text / (context if call.splits_text else 1)
    whole = call.image + call.text if call.splits_text else call.image
    terms: dict[str, float] = {
        "call": 1,
        "samples": call.batch,
        "image_once": image,
        "text_once": text,
        "image": call.batch * image,
        "text": call.batch * text,
    }
    if call.tensor > 1:
        terms |= {"image_shared": call.batch * image / call.tensor, "text_shared": call.batch * text / call.tensor}
    if context > 1:
        local = call.batch * (image + text)
        terms["gathered"] = call.batch * whole / call.ulysses if call.ring > 1 else 0
        terms |= {"ringed": local * (call.ring > 1), "exchanged": local * (call.ulysses > 1)}
        terms["unsplit"] = call.batch * call.image
    elif call.tensor == 1:  # no class that can be split makes such a mask
        terms["pairs"] = call.batch * (image + text) ** 2
    return terms


def clip_terms(component: ComponentFacts, size: Clip, tiled: bool = False) -> dict[str, float]:
    """The value of every term of an autoencoder's call."""
    pixels = size.batch * size.height_px * size.width_px
    terms: dict[str, float] = {"call": 1, "samples": size.batch, "pixels": pixels}
    if size.frames:
        terms["frame_pixels"] = pixels * size.frames
    if tiled:
        terms["tiles"] = tiles = terms.pop("samples") * tile_pixels(component)
        terms |= {"frame_tiles": tiles * size.frames} if size.frames else {}
    return terms


def tile_pixels(component: ComponentFacts) -> int:
    """Pixels of a tile: by the config where the class takes it from there, else those of most classes.

    Source: diffusers 0.42.1, `autoencoder_kl.py:133`, `autoencoder_kl_cogvideox.py:1033`.
    """
    config = component.config
    if component.class_name in ("AutoencoderKL", "AutoencoderKLFlux2"):
        side = config.get("sample_size", 32)
        return int(side * side) if isinstance(side, int) else 512 * 512
    return 512 * 512


def text_terms(component: ComponentFacts, size: Texts) -> dict[str, float]:
    """The value of every term of an encoder's call."""
    terms: dict[str, float] = {"call": 1, "samples": size.batch}
    if has_one_length(component):
        return terms
    pairs = size.tokens**2
    return terms | {"text": size.batch * size.tokens, "pairs": size.batch * pairs, "pairs_once": pairs}


def has_one_length(component: ComponentFacts) -> bool:
    """Whether an encoder's input has always one size: CLIP's texts are padded to its longest, pictures are scaled."""
    return component.class_name.startswith(("CLIP", "Bert", "Siglip"))


DEPTHS = frozenset(
    {
        "n_layers",
        "num_layers",
        "num_mmdit_layers",
        "num_single_dit_layers",
        "num_single_layers",
        "num_text_blocks",
        "num_visual_blocks",
    }
)
"""Keys of a denoiser's config on which its peak does not depend: blocks free what they take."""

INSENSITIVE = frozenset(
    {
        "_name_or_path",
        "axes_lens",
        "decay",
        "force_upcast",
        "guidance_embeds",
        "in_channels",
        "latent_channels",
        "latents_mean",
        "latents_std",
        "latents_bias",
        "optimization_step",
        "out_channels",
        "pooled_projection_dim",
        "pos_embed_max_size",
        "power",
        "sample_frames",
        "sample_height",
        "sample_size",
        "sample_width",
        "scaling_factor",
        "shift_factor",
        "update_after_step",
        "use_ema_warmup",
        "use_post_quant_conv",
        "use_quant_conv",
    }
)
"""Keys that say nothing about a tensor's size, or only about tensors at the edge of a model, such as its latents."""


def shape_config(component: ComponentFacts, is_denoiser: bool) -> dict[str, Any]:
    """What a component's peaks depend on."""
    ignored = INSENSITIVE | DEPTHS if is_denoiser else INSENSITIVE
    return {key: value for key, value in component.config.items() if key not in ignored}


OTHER_CONFIG_MARGIN = 0.15
"""Share of a peak that is scaled by width from another configuration of the class: MLP ratios and channels differ."""


@lru_cache(maxsize=1)
def _entries() -> tuple[dict[str, Any], ...]:
    return tuple(read_json(MODELS / FILE)["entries"])


def width_of(config: Mapping[str, Any]) -> int | None:
    """What the activations of a class grow with: the residual stream, or the channels at full resolution."""
    heads, head = config.get("num_attention_heads"), config.get("attention_head_dim")
    if isinstance(heads, int) and isinstance(head, int):
        return heads * head
    for key in (
        "hidden_size",
        "dim",
        "d_model",
        "model_dim",
        "base_dim",
        "block_out_channels",
        "decoder_block_out_channels",
    ):
        value = config.get(key)
        if isinstance(value, (list, tuple)) and value:
            # An autoencoder's last block takes in at full resolution what the level below gives.
            value = value[min(1, len(value) - 1)] if key == "block_out_channels" else value[0]
        if isinstance(value, int):
            return value
    text = config.get("text_config")
    return width_of(text) if isinstance(text, Mapping) else None


def _scale(config: Mapping[str, Any], entry: Mapping[str, Any]) -> float:
    own, other = width_of(config), width_of(entry["config"])
    return own / other if own and other else 1.0


def forget() -> None:
    """Reads the file again."""
    _measured.cache_clear()


@lru_cache(maxsize=512)
def _measured(component: ComponentFacts) -> tuple[dict[str, Any], float, float] | None:
    """The entry that stands for a component, the ratio of its width, and what a difference adds to the margin."""
    config = component.config
    own = [entry for entry in _entries() if entry["class"] == component.class_name]
    if not own:
        return None
    nearest = max(own, key=lambda entry: sum(config.get(key) == item for key, item in entry["config"].items()))
    # What a config leaves out is the class's default.
    is_same = all(config.get(key, item) == item for key, item in nearest["config"].items())
    return nearest, _scale(config, nearest), 0.0 if is_same else OTHER_CONFIG_MARGIN


def is_measured(component: ComponentFacts, mode: str) -> bool:
    """Whether a mode of the component's class was measured."""
    found = _measured(component)
    return found is not None and mode in found[0]["modes"]


def _peak(component: ComponentFacts, mode: str, dtype: str, terms: Mapping[str, float]) -> tuple[float, float]:
    found = _measured(component)
    if found is None:
        raise KeyError(component.class_name)
    entry, scale, margin = found
    modes: dict[str, dict[str, float]] = entry["modes"]
    peak = sum(value * terms.get(name, 0.0) for name, value in modes[mode].items())
    if dtype == "float32":
        peak *= modes[mode].get("float32", modes.get("whole", {}).get("float32", 2.0))
    return peak * scale, modes[mode]["error"] + margin


def mode_of(call: Call) -> str:
    """How a call is split."""
    return "tensor" if call.tensor > 1 else "context" if call.ulysses * call.ring > 1 else "whole"


def call_peak(component: ComponentFacts, call: Call, dtype: str) -> tuple[float, float]:
    """Peak of a denoiser in bytes, and the share that it may be wrong by.

    Raises:
        KeyError: where its class was not measured in this mode.
    """
    return _peak(component, mode_of(call), dtype, call_terms(call))


def clip_peak(component: ComponentFacts, size: Clip, dtype: str, mode: str) -> tuple[float, float]:
    """Peak of an autoencoder in bytes, and the share that it may be wrong by. What is no larger than a tile is not cut.

    Args:
        component, size, dtype: what runs.
        mode: `decode`, `decode_tiled`, `encode` or `encode_tiled`.

    Raises:
        KeyError: where its class was not measured in this mode.
    """
    found = _peak(component, mode, dtype, clip_terms(component, size, mode.endswith("_tiled")))
    whole = mode.removesuffix("_tiled")
    if mode != whole and is_measured(component, whole):
        found = min(found, _peak(component, whole, dtype, clip_terms(component, size)))
    return found


def text_peak(component: ComponentFacts, size: Texts, dtype: str) -> tuple[float, float]:
    """Peak of an encoder in bytes, and the share that it may be wrong by.

    Raises:
        KeyError: where its class was not measured.
    """
    terms = text_terms(component, size)
    if dtype == "float32" and is_measured(component, "text_float32"):
        return _peak(component, "text_float32", "bfloat16", terms)  # no ratio besides
    return _peak(component, "text", dtype, terms)


def cpu_factor(component: ComponentFacts, mode: str) -> float:
    """What a CPU takes by a peak, for the copies that its convolutions make; 1 where there are none."""
    found = _measured(component)
    return 1.0 if found is None else float(found[0]["modes"].get(mode, {}).get("cpu", 1.0))
