"""Stable Diffusion 3: two blocks, four heads of 16; three encoders."""

from __future__ import annotations

from pathlib import Path

from diffusers import FlowMatchEulerDiscreteScheduler, SD3Transformer2DModel, StableDiffusion3Pipeline

from .family import Family
from .parts import WIDTH, autoencoder, clip_encoder, clip_tokenizer, randomise, soften, t5_encoder, t5_tokenizer


def save(folder: Path) -> Path:
    """Saves the pipeline."""
    clip, t5 = clip_tokenizer(), t5_tokenizer()
    transformer = SD3Transformer2DModel(
        sample_size=32,
        patch_size=2,
        in_channels=4,
        out_channels=4,
        num_layers=2,
        attention_head_dim=16,
        num_attention_heads=4,
        joint_attention_dim=2 * WIDTH,
        caption_projection_dim=64,
        pooled_projection_dim=2 * WIDTH,
        pos_embed_max_size=24,
        qk_norm="rms_norm",
    )
    encoders = [clip_encoder(clip, projected=True) for _ in range(2)]
    text_encoder_3, vae = t5_encoder(t5, width=2 * WIDTH), autoencoder()
    for seed, module in enumerate((*encoders, text_encoder_3, transformer, vae)):
        randomise(module, seed)
    soften(vae)
    pipeline = StableDiffusion3Pipeline(
        transformer=transformer,
        scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0),
        vae=vae,
        text_encoder=encoders[0],
        tokenizer=clip,
        text_encoder_2=encoders[1],
        tokenizer_2=clip,
        text_encoder_3=text_encoder_3,
        tokenizer_3=t5,
    )
    pipeline.save_pretrained(folder)
    return folder


SD3 = Family(
    name="sd3",
    save=save,
    parts=("text_encoder", "text_encoder_2", "text_encoder_3", "vae"),
    sizes=((32, 32), (32, 48), (36, 36), (40, 24), (30, 32)),
    text_lengths=(8, 12, 7, 16),
    schedulers=({"class": "FlowMatchEulerDiscreteScheduler", "stochastic_sampling": True}, {"shift": 1.0}),
    guidance=({}, {"guidance": 1.0}, {"true_cfg": 3.0}, {"true_cfg": 2.0, "negative_prompt": "green tree"}),
    lora_targets=("to_q", "to_k", "to_out.0"),
    spare=("text_encoder_3",),
    encoder="text_encoder_3",
    arguments=(
        {"sigmas": [1.0, 0.4]},
        {"clip_skip": 1},
        {"prompt_3": "green tree"},
        {"skip_guidance_layers": [0]},
        {"joint_attention_kwargs": {"scale": 0.5}},
    ),
)
