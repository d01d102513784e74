"""Mochi: two blocks, four heads of 12; a clip whose latents are six frames."""

from __future__ import annotations

from pathlib import Path

from diffusers import AutoencoderKLMochi, FlowMatchEulerDiscreteScheduler, MochiPipeline, MochiTransformer3DModel

from .family import Family, offloaded
from .parts import WIDTH, randomise, t5_encoder, t5_tokenizer


def save(folder: Path) -> Path:
    """Saves the pipeline."""
    tokenizer = t5_tokenizer()
    text_encoder = t5_encoder(tokenizer)
    transformer = MochiTransformer3DModel(
        num_attention_heads=4,
        attention_head_dim=12,
        num_layers=2,
        pooled_projection_dim=32,
        in_channels=12,
        text_embed_dim=WIDTH,
        time_embed_dim=16,
        max_sequence_length=16,
    )
    vae = AutoencoderKLMochi(
        latent_channels=12,
        out_channels=3,
        encoder_block_out_channels=(32, 32, 32, 32),
        decoder_block_out_channels=(32, 32, 32, 32),
        layers_per_block=(1, 1, 1, 1, 1),
    )
    for seed, module in enumerate((text_encoder, transformer, vae)):
        randomise(module, seed)
    vae.decoder.proj_out.weight.data *= 0.2
    pipeline = MochiPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(invert_sigmas=True),
        vae=vae,
        text_encoder=text_encoder,
        tokenizer=tokenizer,
        transformer=transformer,
    )
    pipeline.save_pretrained(folder)
    return folder


MOCHI = Family(
    name="mochi",
    save=save,
    parts=("text_encoder", "vae"),
    sizes=((32, 32), (48, 32), (48, 48), (80, 32), (40, 32)),
    frames=(7, 13, 1, 8),
    text_lengths=(12, 8, 16, 7),
    schedulers=({"class": "FlowMatchEulerDiscreteScheduler", "stochastic_sampling": True}, {"shift": 3.0}),
    guidance=({}, {"guidance": 1.0}, {"true_cfg": 3.0}, {"true_cfg": 2.0, "negative_prompt": "green tree"}),
    lora_targets=("to_q", "to_k", "to_out.0"),
    arguments=({"timesteps": [900, 300]}, {"attention_kwargs": {}}),
    plans=(
        {"data": 2},
        {"device_map": {"transformer": [1, 0], "text_encoder": 1, "vae": [1, 0]}},
        offloaded("transformer", "text_encoder", "vae"),
    ),
)
