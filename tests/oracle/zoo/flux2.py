"""Flux2: one double and two single blocks, four heads of 16; a Mistral encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from diffusers import AutoencoderKLFlux2, FlowMatchEulerDiscreteScheduler, Flux2Pipeline, Flux2Transformer2DModel
from transformers import Mistral3Config, Mistral3ForConditionalGeneration

from .family import RING, ULYSSES, UNEVEN, UNEVEN_RING, UNIFIED, Family
from .parts import byte_tokenizer, randomise, soften

WIDTH = 32
CHAT = "{% for message in messages %}{% for part in message['content'] %}{{ part['text'] }} {% endfor %}{% endfor %}"


def save(folder: Path) -> Path:
    """Saves the pipeline."""
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = CHAT
    text_encoder = Mistral3ForConditionalGeneration(
        Mistral3Config(
            text_config={
                "model_type": "mistral",
                "vocab_size": len(tokenizer),
                "hidden_size": WIDTH,
                "intermediate_size": 2 * WIDTH,
                "num_hidden_layers": 3,
                "num_attention_heads": 4,
                "num_key_value_heads": 2,
                "head_dim": 8,
                "max_position_embeddings": 1024,
                "sliding_window": None,
            },
            vision_config={
                "model_type": "pixtral",
                "hidden_size": 16,
                "intermediate_size": 32,
                "num_hidden_layers": 1,
                "num_attention_heads": 2,
                "head_dim": 8,
                "image_size": 32,
                "patch_size": 8,
            },
        )
    )
    return finish(folder, Flux2Pipeline, text_encoder, tokenizer)


def finish(folder: Path, pipeline: Any, text_encoder: Any, tokenizer: Any, **settings: Any) -> Path:
    """Saves a pipeline of this family with its text encoder; `settings` are of the pipeline's class."""
    transformer = Flux2Transformer2DModel(
        in_channels=32,
        num_layers=1,
        num_single_layers=2,
        attention_head_dim=16,
        num_attention_heads=4,
        joint_attention_dim=3 * WIDTH,
        timestep_guidance_channels=32,
        axes_dims_rope=(4, 4, 4, 4),
        guidance_embeds=pipeline is Flux2Pipeline,
    )
    vae = AutoencoderKLFlux2(
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        block_out_channels=(16, 32),
        layers_per_block=1,
        latent_channels=8,
        norm_num_groups=8,
        sample_size=32,
    )
    for seed, module in enumerate((text_encoder, transformer, vae)):
        randomise(module, seed)
    generator = torch.Generator().manual_seed(3)
    vae.bn.running_mean.copy_(torch.randn(vae.bn.running_mean.shape, generator=generator) * 0.1)
    vae.bn.running_var.copy_(1 + torch.rand(vae.bn.running_var.shape, generator=generator))
    soften(vae)
    scheduler = FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True)
    pipeline(scheduler, vae, text_encoder, tokenizer, transformer, **settings).save_pretrained(folder)
    return folder


FLUX2 = Family(
    name="flux2",
    save=save,
    parts=("text_encoder", "vae"),
    sizes=((32, 32), (32, 48), (36, 36), (40, 24), (30, 34)),
    text_lengths=(8, 12, 7, 16),
    args={"text_encoder_out_layers": [1, 2, 3]},
    schedulers=(
        {"class": "FlowMatchEulerDiscreteScheduler", "stochastic_sampling": True},
        {"class": "FlowMatchHeunDiscreteScheduler"},
    ),
    guidance=(*({},) * 6, *({"guidance": 2.5},) * 6, {"true_cfg": 2.0}, {"negative_prompt": "green tree"}),
    lora_targets=("to_q", "to_k", "to_qkv_mlp_proj"),
    strategies=("data", "tensor", "context", "context", "map"),
    splits=(
        *({"tensor": 2}, {"tensor": 4}, ULYSSES, RING, UNIFIED, UNEVEN),
        *({"context": {"ulysses": 4, "uneven": True}}, UNEVEN_RING),
    ),
    encoder_degree=2,
    cuts_autoencoder=True,
    branches={},
    arguments=({"sigmas": [1.0, 0.4]}, {"attention_kwargs": {}}, {"text_encoder_out_layers": [0, 1, 2]}),
)
