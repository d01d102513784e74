"""Qwen-Image: two blocks, six heads of 16; a Qwen2.5-VL encoder, whose text has the prompt's own length."""

from __future__ import annotations

from pathlib import Path

from diffusers import (
    AutoencoderKLQwenImage,
    FlowMatchEulerDiscreteScheduler,
    QwenImagePipeline,
    QwenImageTransformer2DModel,
)
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

from .family import UNEVEN, UNEVEN_RING, Family
from .parts import qwen_tokenizer, randomise, soften

WIDTH = 32


def qwen_encoder(vocabulary: int) -> Qwen2_5_VLForConditionalGeneration:
    """A Qwen2.5-VL of two layers and four heads that share two of keys; it sees pictures too."""
    return Qwen2_5_VLForConditionalGeneration(
        Qwen2_5_VLConfig(
            text_config={
                "vocab_size": vocabulary,
                "hidden_size": WIDTH,
                "intermediate_size": 2 * WIDTH,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "num_key_value_heads": 2,
                "max_position_embeddings": 2048,
                "rope_parameters": {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10000.0},
            },
            vision_config={
                "depth": 1,
                "hidden_size": 16,
                "intermediate_size": 32,
                "num_heads": 2,
                "out_hidden_size": WIDTH,
                "patch_size": 4,
            },
        )
    )


def save(folder: Path) -> Path:
    """Saves the pipeline."""
    tokenizer = qwen_tokenizer()
    text_encoder = qwen_encoder(len(tokenizer))
    transformer = QwenImageTransformer2DModel(
        in_channels=64,
        out_channels=16,
        num_layers=2,
        attention_head_dim=16,
        num_attention_heads=6,
        joint_attention_dim=WIDTH,
        axes_dims_rope=(4, 6, 6),
    )
    vae = AutoencoderKLQwenImage(base_dim=8, z_dim=16, dim_mult=[1, 1, 1, 1], num_res_blocks=1)
    for seed, module in enumerate((text_encoder, transformer, vae)):
        randomise(module, seed)
    soften(vae, 0.5)
    scheduler = FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True)
    QwenImagePipeline(scheduler, vae, text_encoder, tokenizer, transformer).save_pretrained(folder)
    return folder


QWEN_IMAGE = Family(
    name="qwen-image",
    save=save,
    parts=("text_encoder", "vae"),
    sizes=((64, 64), (64, 48), (48, 48), (80, 32), (60, 70)),
    text_lengths=(None, 512, 16, 8),
    schedulers=({"class": "FlowMatchEulerDiscreteScheduler", "stochastic_sampling": True}, {"shift": 3.0}),
    guidance=({}, {"true_cfg": 3.0}, {"true_cfg": 2.0, "negative_prompt": "green tree"}, {"negative_prompt": "face"}),
    lora_targets=("to_q", "to_k", "to_out.0"),
    strategies=("data", "tensor", "context", "context", "map"),
    splits=({"tensor": 2}, {"tensor": 3}, UNEVEN, UNEVEN_RING, {"data": 2, "tensor": 2}),
    encoder_degree=2,
    cuts_autoencoder=True,
    text_length=512,
    arguments=({"sigmas": [1.0, 0.4]}, {"attention_kwargs": {}}),
)
