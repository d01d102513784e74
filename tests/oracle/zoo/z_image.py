"""Z-Image: two blocks and one refiner each for picture and text, four heads of 16; a Qwen3 encoder, of whose text each
picture has its own length."""

from __future__ import annotations

from pathlib import Path

from diffusers import FlowMatchEulerDiscreteScheduler, ZImagePipeline, ZImageTransformer2DModel
from transformers import Qwen3Model

from .family import Family
from .parts import autoencoder, qwen3_config, qwen_tokenizer, randomise, soften

WIDTH = 32
CHAT = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "<|im_start|>assistant\n"
)


def save(folder: Path) -> Path:
    """Saves the pipeline."""
    tokenizer = qwen_tokenizer()
    tokenizer.chat_template = CHAT
    text_encoder = Qwen3Model(qwen3_config(len(tokenizer), WIDTH))
    transformer = ZImageTransformer2DModel(
        in_channels=4,
        dim=64,
        n_layers=2,
        n_refiner_layers=1,
        n_heads=4,
        n_kv_heads=4,
        cap_feat_dim=WIDTH,
        axes_dims=[4, 6, 6],
        axes_lens=[256, 64, 64],
    )
    vae = autoencoder()
    for seed, module in enumerate((text_encoder, transformer, vae)):
        randomise(module, seed)
    soften(vae)
    scheduler = FlowMatchEulerDiscreteScheduler(shift=6.0, use_dynamic_shifting=False)
    ZImagePipeline(scheduler, vae, text_encoder, tokenizer, transformer).save_pretrained(folder)
    return folder


Z_IMAGE = Family(
    name="z-image",
    save=save,
    parts=("text_encoder", "vae"),
    sizes=((32, 32), (32, 48), (64, 48), (40, 24), (36, 36)),
    text_lengths=(512, 32, 40, 16),
    schedulers=(
        {"class": "FlowMatchEulerDiscreteScheduler", "stochastic_sampling": True},
        {"class": "FlowMatchEulerDiscreteScheduler", "use_dynamic_shifting": True},
        {"class": "FlowMatchHeunDiscreteScheduler"},
    ),
    guidance=(
        {},
        {"guidance": 1.0},
        {"guidance": 0.0},
        {"true_cfg": 3.0},
        {"guidance": 0.5, "negative_prompt": "green tree"},
        {"true_cfg": 2.0, "negative_prompt": "green tree"},
    ),
    lora_targets=("to_q", "to_k", "to_out.0"),
    encoder_degree=2,
    text_length=512,
    arguments=({"sigmas": [1.0, 0.4]}, {"cfg_normalization": True}, {"cfg_truncation": 0.5}),
)
