"""What lies on each device and how full it is.

Weights are exact to the byte. Activations are an estimate with a margin:

- a denoiser keeps about `LIVE_WIDTHS` vectors of its width for each token alive at its fullest moment
  -> `denoiser_activation_bytes`
- a VAE's last up block keeps about `LIVE_FEATURE_MAPS` maps at full resolution -> `decode_activation_bytes`

Where offloading or staging is not asked for, all components stay on their device, so a device's peak is its weights
and the larger of the two.
"""

from __future__ import annotations

from dataclasses import dataclass

from dcompile.facts.resolve import Facts
from dcompile.facts.types import ComponentFacts
from dcompile.layout.placement import Placement, place
from dcompile.layout.settings import Settings, component_dtype
from dcompile.layout.shard import dtype_bytes
from dcompile.layout.splits import Split, Splits
from dcompile.layout.tokens import image_tokens
from dcompile.recipe.model import Recipe

LIVE_WIDTHS = 12
"""Residual stream 1, normed copy 1, query, key and value 3, attention's output 1, the MLP's hidden vector 4, and two
copies for joining text and image: counted from `transformer_flux.py` of diffusers 0.42.1."""

LIVE_FEATURE_MAPS = 3
"""A residual block's input, its normed copy and its output: counted from `models/resnet.py` of diffusers 0.42.1."""

ACTIVATION_MARGIN = 0.25
"""Share of the activation estimate that it may be wrong by; not calibrated yet, so wide."""


@dataclass(frozen=True)
class DeviceLoad:
    """One device of one rank. All sizes in bytes; `memory_bytes` is None where the machine's memory is not known."""

    rank: int
    device: int
    memory_bytes: int | None
    weight_bytes: int
    activation_bytes: int
    reserve_bytes: int
    components: dict[str, int]


def denoiser_activation_bytes(
    component: ComponentFacts, split: Split, settings: Settings, tokens: int, size: int
) -> int:
    """Estimated peak of a denoiser's step on one rank; `tokens` counts image and text tokens of one sample."""
    config = component.config
    head_width = config.get("attention_head_dim")
    if component.heads is not None and isinstance(head_width, int):
        width = component.heads * head_width
    else:  # a UNet: its widest level, with the latent's tokens at that level counted as if they were all there
        width = max(config.get("block_out_channels", (1280,)))
    return settings.batch * -(-tokens // split.context) * width * LIVE_WIDTHS * size


def decode_activation_bytes(component: ComponentFacts, settings: Settings, size: int, tiled: bool) -> int:
    """Estimated peak of a VAE's decode; a tile is 512 pixels wide."""
    config = component.config
    channels = config.get("block_out_channels") or [config.get("base_dim", 96), config.get("base_dim", 96)]
    height, width = settings.height_px, settings.width_px
    if tiled:
        height, width = min(height, 512), min(width, 512)
    frames = 4 if settings.frames else 1  # causal video VAEs decode one latent frame (four frames) at a time
    return (
        settings.batch * frames * height * width * int(channels[min(1, len(channels) - 1)]) * LIVE_FEATURE_MAPS * size
    )


def activation_bytes(recipe: Recipe, facts: Facts, name: str, split: Split, settings: Settings) -> int:
    """Estimated peak of one component; 0 for those that are small beside the denoiser."""
    component = facts.model.components[name]
    size = dtype_bytes(component_dtype(recipe, name, facts.devices.kind))
    if name in facts.model.denoisers:
        pixels = image_tokens(facts.model.tokens, settings.height_px, settings.width_px, settings.frames)
        return denoiser_activation_bytes(component, split, settings, pixels + settings.text_tokens, size)
    if name == "vae":
        own = recipe.components.get(name)
        return decode_activation_bytes(component, settings, size, bool(own and own.tiling))
    return 0


def device_loads(recipe: Recipe, facts: Facts, splits: Splits, settings: Settings) -> tuple[DeviceLoad, ...]:
    """Every device of every rank, in order of rank."""
    placement: Placement = place(recipe, facts, splits)
    loads: list[DeviceLoad] = []
    peaks = {
        name: activation_bytes(recipe, facts, name, splits.components[name], settings) for name in splits.components
    }
    for rank in range(splits.ranks):
        for device in range(placement.devices_per_rank):
            held = {name: shares[device] for name, shares in placement.bytes_of.items() if shares.get(device)}
            loads.append(
                DeviceLoad(
                    rank=rank,
                    device=device,
                    memory_bytes=facts.devices.memory_bytes(rank * placement.devices_per_rank + device),
                    weight_bytes=sum(held.values()),
                    activation_bytes=max((peaks[name] for name in held), default=0),
                    reserve_bytes=facts.devices.reserve_bytes,
                    components=held,
                )
            )
    return tuple(loads)
