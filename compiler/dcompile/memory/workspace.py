"""What the convolutions of an autoencoder take inside themselves on an accelerator: no storage of a tensor shows it.

cuDNN copies what lies channel by channel into the order that its kernels want, and back. How much that makes was
published for three of the classes as peaks of torch's allocator; a CPU's convolutions are counted from their shapes
instead (`cpu_convolution` in `memory/live_storages.py`).
"""

from __future__ import annotations

_KL = {"decode": 0.59, "encode": 0.34}
_WAN = {"decode": 0.22, "encode": 0.4}
_SHARES: dict[str, dict[str, float]] = {
    "AutoencoderKL": _KL,
    "AutoencoderKLFlux2": _KL,
    "AutoencoderKLQwenImage": _WAN,
    "AutoencoderKLWan": _WAN,
}
"""Shares of the storages alive at the peak, by class and by what it does.

Sources, each the peak that was allocated less the weights:
`AutoencoderKL`, decode: 40.96 GiB for FLUX.1-dev in bfloat16 at 2048x2048 on two L20 (vipshop/cache-dit#645), of which
31.42 are weights. Encode: an RTX 4090 reserved no more for 1024x1024 in float32 (huggingface/diffusers@b47fa05,
`hybrid_inference/vae_encode.md`). `AutoencoderKLFlux2` has the same layers.
`AutoencoderKLQwenImage`: ten sizes in float16 on an RTX 4090 with torch 2.7.1 (invoke-ai/InvokeAI#9305), which agree to
half a percent; on a RX 9060 XT the shares are 0.20 and 0.19 (Comfy-Org/ComfyUI#15221). That of Wan has the same layers.
"""
_LEAST = 0.2
"""For every other autoencoder: the least that any of them showed."""


def workspace_share(class_name: str, mode: str) -> tuple[float, bool]:
    """The share that comes on top of an autoencoder's live storages, and whether it was measured for this class.

    Args:
        class_name: of the autoencoder.
        mode: `decode` or `encode`; in tiles the same, of a tile.
    """
    known = _SHARES.get(class_name, {}).get(mode.removesuffix("_tiled"))
    return (_LEAST, False) if known is None else (known, True)
