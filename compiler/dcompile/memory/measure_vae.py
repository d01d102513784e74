"""Peaks of an autoencoder's decode and encode, with and without tiles, for `memory/measure.py`. Imports torch."""

from __future__ import annotations

from typing import Any

import torch

from dcompile.facts.types import ComponentFacts, ModelFacts
from dcompile.memory.activations import Clip, clip_terms, tile_pixels
from dcompile.memory.fitting import Sample, fit
from dcompile.memory.live_storages import Workspace, cpu_convolution
from dcompile.memory.measure_meta import Run, build, peak_bytes

VAE_MODES = ("decode", "decode_tiled", "encode", "encode_tiled")

_FRAMES = {"AutoencoderKLMochi": 6, "AutoencoderKLLTXVideo": 8, "AutoencoderKLLTX2Video": 8}
"""Frames of a latent frame, where they are not four."""

_PIECE = {"AutoencoderKLHunyuanVideo": 4}
"""Latent frames of the pieces that a clip is cut into in time. A shorter clip takes less."""


def vae_sizes(model: ModelFacts, component: ComponentFacts, is_tiled: bool) -> list[Clip]:
    """Sizes of pictures or clips; those of tiled ones are larger than a tile."""
    name = component.class_name
    if not model.tokens["frames"]:
        side = int(tile_pixels(component) ** 0.5) if is_tiled else 512
        quarters = (
            ((1, 6, 6), (1, 9, 6), (1, 6, 9), (2, 6, 6)) if is_tiled else ((1, 4, 4), (1, 8, 6), (1, 8, 12), (2, 4, 8))
        )
        return [Clip(batch, side * high // 4, side * wide // 4, 0) for batch, high, wide in quarters]
    few, some = ((1, 4, 4, 2), (1, 4, 6, 4), (1, 6, 6, 3), (2, 4, 4, 3)), ((1, 3, 3, 2), (2, 3, 3, 3), (1, 4, 3, 2))
    sizes, unit = [*few], 64
    if is_tiled:
        sizes = [*some, (1, 3, 4, 4), (1, 4, 4, 3), (1, 3, 3, 6)]
        unit = 256 if "LTX" in name else 128
    step, piece = _FRAMES.get(name, 4), _PIECE.get(name, 0)
    return [Clip(batch, unit * high, unit * wide, (piece + count) * step + 1) for batch, high, wide, count in sizes]


def measure_vae(model: ModelFacts, component: ComponentFacts, mode: str) -> dict[str, float]:
    """Coefficients of one mode, the ratio of float32, and what a CPU's convolutions add to that."""
    is_tiled = mode.endswith("tiled")
    sizes = vae_sizes(model, component, is_tiled)

    def peaks(sizes: list[Clip], dtype: str, workspace: Workspace | None = None) -> list[int]:
        built = build(component.class_name, "diffusers", component.config, dtype)
        if is_tiled:
            built.enable_tiling()
        return [peak_bytes(built, vae_call(built, mode, size, dtype), workspace) for size in sizes]

    half = peaks(sizes, "bfloat16")
    at = half.index(max(half))
    (single,) = peaks(sizes[at : at + 1], "float32")
    (on_cpu,) = peaks(sizes[at : at + 1], "float32", workspace=cpu_convolution)
    samples = [Sample(clip_terms(component, size, is_tiled), peak) for size, peak in zip(sizes, half, strict=True)]
    return fit(samples) | {"float32": round(single / half[at], 4), "cpu": round(on_cpu / single, 4)}


def vae_call(built: Any, mode: str, size: Clip, dtype: str) -> Run:
    """A call of a built autoencoder."""
    kind = getattr(torch, dtype)
    if mode.startswith("encode"):
        frames = (size.frames or 1,) if _takes_clips(built) else ()
        pixels = torch.empty(size.batch, _channels(built), *frames, size.height_px, size.width_px, dtype=kind)
        return Run(lambda: built.encode(pixels, return_dict=False), pixels)
    latent = torch.empty(latent_shape(built, size), dtype=kind)
    extra = {}
    if built.config.get("timestep_conditioning"):
        extra["temb"] = torch.empty(size.batch, dtype=kind)
    return Run(lambda: built.decode(latent, **extra, return_dict=False), [latent, extra])


def latent_shape(built: Any, size: Clip) -> tuple[int, ...]:
    """The latent that decodes to a size."""
    name, config = type(built).__name__, built.config
    channels = config.get("latent_channels") or config["z_dim"]
    side = _latent_pixels(built)
    frames = ((max(1, size.frames) - 1) // _FRAMES.get(name, 4) + 1,) if _takes_clips(built) else ()
    return (size.batch, channels, *frames, size.height_px // side, size.width_px // side)


def _takes_clips(built: Any) -> bool:
    """Whether pictures too are clips, of one frame."""
    return "temperal_downsample" in built.config or any(isinstance(one, torch.nn.Conv3d) for one in built.modules())


def _channels(built: Any) -> int:
    """Channels of a picture: Qwen-Image 2.1 has one of transparency too; Wan 2.2 takes patches for channels."""
    config = built.config
    if "temperal_downsample" not in config:
        return 3
    return int(config.get("in_channels", 3)) // int(config.get("patch_size") or 1) ** 2


def _latent_pixels(built: Any) -> int:
    """Pixels of a latent's side."""
    config = built.config
    known = config.get("scale_factor_spatial") or getattr(built, "spatial_compression_ratio", None)
    levels = config.get("encoder_block_out_channels") or config.get("block_out_channels")
    return int(known or 2 ** (len(levels) - 1))
