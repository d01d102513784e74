"""Peaks of the encoders of texts and pictures, for `memory/measure.py`. Imports torch.

All blocks run: hidden states and keys are kept from block to block.
"""

from __future__ import annotations

from typing import Any

import torch

from dcompile.facts.types import ComponentFacts
from dcompile.memory.activations import Texts, has_one_length, text_terms
from dcompile.memory.fitting import Sample, fit
from dcompile.memory.home import ALL_STATES
from dcompile.memory.measure_meta import Run, build, peak_bytes

_NO_CACHE = ("Mistral3ForConditionalGeneration", "Qwen3ForCausalLM")
"""Classes whose keys and values it asks not to keep: `pipeline_flux2.py:343`, `pipeline_flux2_klein.py:253`."""


def encoder_sizes(component: ComponentFacts) -> list[Texts]:
    """Numbers of texts and their lengths, or numbers of pictures."""
    if has_one_length(component):
        longest = int(component.config.get("max_position_embeddings", 77))
        return [Texts(batch, longest) for batch in (1, 2, 4)]
    sizes = ((1, 128), (1, 512), (2, 256), (4, 128), (1, 256), (2, 512), (1, 1024))
    return [Texts(batch, tokens) for batch, tokens in sizes]


def measure_encoder(component: ComponentFacts, mode: str) -> dict[str, float]:
    """Coefficients of an encoder's call. float32 has its own: no ratio holds where scores are float32 in any case."""
    dtype = "float32" if mode == "text_float32" else "bfloat16"
    built = build(component.class_name, component.library, component.config, dtype)
    return fit(
        [
            Sample(text_terms(component, size), peak_bytes(built, encoder_call(built, size, dtype)))
            for size in encoder_sizes(component)
        ]
    )


def encoder_call(built: Any, size: Texts, dtype: str) -> Run:
    """A call of a built encoder, as its pipeline calls it: with texts that end in padding."""
    name = type(built).__name__
    if name == "LTX2TextConnectors":
        return _connectors_call(built, size, dtype)
    asked: dict[str, Any] = {}
    if name in ALL_STATES:
        asked["output_hidden_states"] = True
    if name in _NO_CACHE:
        asked["use_cache"] = False
    if "Vision" in name:
        side = built.config.image_size
        inputs = {"pixel_values": torch.empty(size.batch, 3, side, side, dtype=getattr(torch, dtype))}
    else:
        inputs = {"input_ids": torch.zeros(size.batch, size.tokens, dtype=torch.int64)}
        if not name.startswith("CLIP"):
            inputs["attention_mask"] = torch.ones(size.batch, size.tokens, dtype=torch.int64)
            inputs["attention_mask"][:, size.tokens // 2 :] = 0
    return Run(lambda: built(**inputs, **asked), inputs, size.tokens, is_padded=True)


def _connectors_call(built: Any, size: Texts, dtype: str) -> Run:
    """Every hidden state of a text encoder; of two branches those of the unguided one are there once more."""
    width, kind = built.config.caption_channels * built.config.text_proj_in_factor, getattr(torch, dtype)
    states = torch.empty(size.batch, size.tokens, width, dtype=kind)
    mask = torch.ones(size.batch, size.tokens, dtype=torch.int64)
    kept = torch.empty(size.batch // 2, size.tokens, width, dtype=kind)
    return Run(lambda: built(states, mask), [states, mask, kept], size.tokens, is_padded=True)
