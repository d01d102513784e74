"""What a pipeline holds on the device where it works, its home, beside what its components hold.

What a component on another device makes is brought home (`runtime/device_map.py`), and pictures are finished there. Of
a component that lies at home all of this is part of its own peak, or less; but of one that decodes in tiles.
"""

from __future__ import annotations

from dataclasses import dataclass

from dcompile.facts.pipelines import whole
from dcompile.facts.resolve import Facts
from dcompile.facts.types import ComponentFacts
from dcompile.layout.settings import Settings, component_dtype
from dcompile.layout.shard import dtype_bytes
from dcompile.memory.activations import Texts, width_of
from dcompile.memory.peaks import (
    CONNECTORS,
    DECODE,
    DENOISE,
    ENCODE,
    cached_keys_bytes,
    phases_of,
    samples_of_call,
    texts_of,
)
from dcompile.recipe.model import Recipe

ALL_STATES = (
    "CLIPTextModel",
    "CLIPTextModelWithProjection",
    "CLIPVisionModel",
    "CLIPVisionModelWithProjection",
    "Gemma2Model",
    "Gemma3ForConditionalGeneration",
    "GlmModel",
    "LlamaForCausalLM",
    "LlamaModel",
    "Mistral3ForConditionalGeneration",
    "Qwen2_5_VLForConditionalGeneration",
    "Qwen3ForCausalLM",
    "Qwen3Model",
    "Qwen3VLForConditionalGeneration",
)
"""Classes whose hidden states of all blocks a pipeline of diffusers 0.42.1 asks for."""

COPIES = 3
"""Copies of a picture while it is finished: `(images * 0.5 + 0.5).clamp(0, 1)` has what it is made of, the sum and the
result; and of a clip while a picture is filled up to it in float32 and brought to the autoencoder's dtype. Source:
diffusers 0.42.1, `image_processor.py:235`, `pipeline_wan_i2v.py` (`prepare_latents`)."""


@dataclass(frozen=True)
class Kept:
    """What is at home in one phase.

    Attributes:
        always_bytes: beside whatever is called there.
        handed_bytes: what a component elsewhere makes or is given, at the most.
        called: that component.
    """

    always_bytes: int = 0
    handed_bytes: int = 0
    called: str | None = None

    @property
    def need_bytes(self) -> int:
        """Both."""
        return self.always_bytes + self.handed_bytes


def kept_at_home(recipe: Recipe, facts: Facts, settings: Settings, tensor: int) -> dict[str, Kept]:
    """What is at home in each phase, for a job in one shape.

    Args:
        recipe, facts, settings: the job, and one shape of it.
        tensor: ranks that share the denoiser's heads.
    """
    model = facts.model
    denoiser = model.denoisers[0]
    size = dtype_bytes(component_dtype(recipe, denoiser, facts.devices.kind))
    states = _states_bytes(recipe, facts, settings, size)
    encoded = {name: _handed_states(recipe, facts, name, settings) for name in model.components}
    values = settings.batch * 3 * settings.height_px * settings.width_px * (settings.frames or 1)
    frames = 0
    if "vae" in model.components:
        frames = COPIES * values * dtype_bytes(component_dtype(recipe, "vae", facts.devices.kind))
        encoded["vae"] = frames if ENCODE in phases_of(model, "vae") else 0
    first = max(encoded, key=encoded.__getitem__)
    return {
        ENCODE: Kept(0, encoded[first], first),
        DENOISE: Kept(states, 0, denoiser),
        DECODE: Kept(states + cached_keys_bytes(recipe, facts, settings, tensor), frames, "vae"),
    }


def _states_bytes(recipe: Recipe, facts: Facts, settings: Settings, size: int) -> int:
    """What a call of LTX-2 keeps to its end: every hidden state of its text encoder.

    Those of both branches, and once more of the unguided one. Source: diffusers 0.42.1, `pipeline_ltx2.py:1190`.
    """
    connectors = facts.model.components.get(CONNECTORS)
    if connectors is None:
        return 0
    samples = samples_of_call(recipe, facts.model, settings.batch)
    width = whole(connectors.config.get("caption_channels")) * whole(connectors.config.get("text_proj_in_factor"))
    return (2 * samples - settings.batch) * settings.text_tokens * width * size


def _handed_states(recipe: Recipe, facts: Facts, name: str, settings: Settings) -> int:
    """The hidden states of all blocks of an encoder whose pipeline asks for them; less than its own peak."""
    component = facts.model.components[name]
    if component.class_name not in ALL_STATES:
        return 0
    texts = texts_of(recipe, facts.model, name, settings)
    size = dtype_bytes(component_dtype(recipe, name, facts.devices.kind))
    return _of_states(component, texts, size)


def _of_states(component: ComponentFacts, texts: Texts, size: int) -> int:
    states = max((count for _, count in component.blocks), default=0) + 1
    return texts.batch * texts.tokens * (width_of(component.config) or 0) * states * size
