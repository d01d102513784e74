"""Peaks of classes that were not measured, by counting tensors in the code of diffusers 0.42.1."""

from __future__ import annotations

from dcompile.facts.types import ComponentFacts
from dcompile.memory.activations import Call, Clip, Texts, width_of

LIVE_WIDTHS = 12
"""Residual stream 1, normed copy 1, query, key and value 3, attention's output 1, the MLP's hidden vector 4, and two
copies for joining text and image: `transformer_flux.py`."""

LIVE_FEATURE_MAPS = 3
"""A residual block's input, its normed copy and its output: `models/resnet.py`."""

COUNTED_MARGIN = 0.25
"""Share of such an estimate that it may be wrong by."""


def counted_call_bytes(component: ComponentFacts, call: Call, size: int) -> int:
    """A denoiser's step on one rank: about `LIVE_WIDTHS` vectors of its width for each token; `size` bytes a number."""
    config = component.config
    head_width = config.get("attention_head_dim")
    if component.heads is not None and isinstance(head_width, int):
        width = component.heads * head_width
    else:  # a UNet: its widest level, with the latent's tokens at that level counted as if they were all there
        width = max(config.get("block_out_channels", (1280,)))
    tokens = -(-(call.image + call.text) // (call.ulysses * call.ring))
    return int(call.batch * tokens * width * LIVE_WIDTHS * size)


def counted_text_bytes(component: ComponentFacts, texts: Texts, size: int) -> int:
    """An encoder's call: `LIVE_WIDTHS` vectors for each token, and one for each block whose hidden state is kept."""
    width = width_of(component.config) or 4096
    kept = max((count for _, count in component.blocks), default=0)
    return texts.batch * texts.tokens * width * (LIVE_WIDTHS + kept) * size


def decoded_frames(component: ComponentFacts, frames: int) -> int:
    """Frames that a VAE decodes at once, without tiles; `frames` is 0 for pictures.

    HunyuanVideo's goes by pieces of 16 and one that they share, LTX's takes the whole clip, the others (causal, with a
    cache) one latent frame, which is four. Source: diffusers 0.42.1, `autoencoder_kl_hunyuan_video.py:811`,
    `autoencoder_kl_ltx.py:1168`.
    """
    if not frames:
        return 1
    if component.class_name == "AutoencoderKLHunyuanVideo":
        return min(frames, 17)
    return frames if "LTX" in component.class_name else 4


def counted_decode_bytes(component: ComponentFacts, decode: Clip, size: int, tiled: bool) -> int:
    """An autoencoder's decode: `LIVE_FEATURE_MAPS` maps of its last up block; a tile is 512 pixels wide."""
    config = component.config
    height, width = decode.height_px, decode.width_px
    if tiled:
        height, width = min(height, 512), min(width, 512)
    patch = config.get("patch_size")
    side = patch if isinstance(patch, int) and patch > 0 else 1  # pixels that the last map has on its side
    maps = decoded_frames(component, decode.frames) * height * width // side**2
    return decode.batch * maps * _last_width(component) * LIVE_FEATURE_MAPS * size


def _last_width(component: ComponentFacts) -> int:
    """Channels that the last up block takes in: by the config, else twice what the last convolution takes in."""
    channels, base = component.config.get("block_out_channels"), component.config.get("base_dim")
    if channels:
        return int(channels[min(1, len(channels) - 1)])
    if isinstance(base, int):
        return base
    last = (
        group for group in component.parameters if group.name.startswith("decoder.conv_out.") and len(group.shape) > 3
    )
    return next((2 * group.shape[1] for group in last), 96)
