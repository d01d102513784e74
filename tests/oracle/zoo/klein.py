"""FLUX.2 klein: the transformer of Flux2 without its guidance, two branches, and a Qwen3 for text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from diffusers import Flux2KleinPipeline
from transformers import Qwen3ForCausalLM

from .family import RING, ULYSSES, UNEVEN, offloaded
from .flux2 import FLUX2, WIDTH, finish
from .parts import qwen3_config, qwen_tokenizer

CHAT = "{% for message in messages %}{{ message['content'] }} {% endfor %}"


def save(folder: Path) -> Path:
    """Saves the pipeline."""
    tokenizer = qwen_tokenizer()
    tokenizer.chat_template = CHAT
    text_encoder = Qwen3ForCausalLM(qwen3_config(len(tokenizer), WIDTH))
    return finish(folder, Flux2KleinPipeline, text_encoder, tokenizer, is_distilled=False)


KLEIN = replace(
    FLUX2,
    name="klein",
    save=save,
    guidance=({}, {"guidance": 1.0}, {"true_cfg": 2.0}, {"guidance": 2.5}),
    cuts_autoencoder=False,
    plans=(
        *({"tensor": 2}, ULYSSES, RING, UNEVEN),
        {"components": {"text_encoder": {"tensor": 2}}},
        {"device_map": {"transformer": [1, 0], "vae": 2}},
        {"device_map": {"text_encoder": [0, 1], "transformer": 2, "vae": 2}},
        offloaded("transformer", "text_encoder"),
    ),
)
