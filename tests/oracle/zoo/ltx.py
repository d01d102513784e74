"""LTX-Video: two blocks, four heads of 12; text and its mask are split with the video."""

from __future__ import annotations

from pathlib import Path

from diffusers import (
    AutoencoderKLLTXVideo,
    FlowMatchEulerDiscreteScheduler,
    LTXConditionPipeline,
    LTXPipeline,
    LTXVideoTransformer3DModel,
)

from .family import Family, offloaded
from .parts import WIDTH, randomise, soften, t5_encoder, t5_tokenizer


def save(folder: Path) -> Path:
    """Saves the pipeline."""
    tokenizer = t5_tokenizer()
    text_encoder = t5_encoder(tokenizer)
    transformer = LTXVideoTransformer3DModel(
        in_channels=8,
        out_channels=8,
        num_attention_heads=4,
        attention_head_dim=12,
        cross_attention_dim=48,
        num_layers=2,
        caption_channels=WIDTH,
    )
    vae = AutoencoderKLLTXVideo(
        latent_channels=8,
        block_out_channels=(8, 8, 8, 8),
        decoder_block_out_channels=(8, 8, 8, 8),
        layers_per_block=(1, 1, 1, 1, 1),
        decoder_layers_per_block=(1, 1, 1, 1, 1),
    )
    for seed, module in enumerate((text_encoder, transformer, vae)):
        randomise(module, seed)
    soften(vae)
    scheduler = FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True)
    LTXPipeline(scheduler, vae, text_encoder, tokenizer, transformer).save_pretrained(folder)
    return folder


def save_with_conditions(folder: Path) -> Path:
    """Saves a pipeline of LTX 0.9.5: another autoencoder, which is told how noisy the latents are."""
    save(folder)
    plain = LTXPipeline.from_pretrained(folder)
    vae = AutoencoderKLLTXVideo(
        latent_channels=8,
        block_out_channels=(8, 8, 8, 8, 8),
        down_block_types=("LTXVideo095DownBlock3D",) * 4,
        decoder_block_out_channels=(8, 16, 32),
        layers_per_block=(1, 1, 1, 1, 1),
        decoder_layers_per_block=(1, 1, 1, 1),
        spatio_temporal_scaling=(True, True, True, True),
        decoder_spatio_temporal_scaling=(True, True, True),
        decoder_inject_noise=(False, False, False, False),
        downsample_type=("spatial", "temporal", "spatiotemporal", "spatiotemporal"),
        upsample_residual=(True, True, True),
        upsample_factor=(2, 2, 2),
        timestep_conditioning=True,
        decoder_causal=False,
        spatial_compression_ratio=32,
        temporal_compression_ratio=8,
    )
    randomise(vae, 3)
    soften(vae)
    # Its pipeline makes the schedule itself and hands over no `mu`.
    scheduler = FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=False)
    LTXConditionPipeline(scheduler, vae, plain.text_encoder, plain.tokenizer, plain.transformer).save_pretrained(folder)
    return folder


LTX = Family(
    name="ltx",
    save=save,
    parts=("text_encoder", "vae"),
    sizes=((64, 64), (96, 64), (96, 96), (128, 64), (80, 64)),
    frames=(9, 9, 17, 1, 10),
    text_lengths=(8, 12, 7, 16),
    schedulers=({"class": "FlowMatchEulerDiscreteScheduler", "stochastic_sampling": True}, {"shift": 3.0}),
    guidance=({}, {"guidance": 1.0}, {"true_cfg": 3.0}, {"true_cfg": 2.0, "negative_prompt": "green tree"}),
    lora_targets=("to_q", "to_k", "to_out.0"),
    cuts_autoencoder=True,
    arguments=(
        {"frame_rate": 24},
        {"guidance_rescale": 0.5},
        {"timesteps": [900, 300]},
        {"decode_timestep": 0.05},
        {"decode_noise_scale": 0.1},
    ),
)
LTX_CONDITION = Family(
    name="ltx-condition",
    save=save_with_conditions,
    parts=LTX.parts,
    sizes=LTX.sizes,
    frames=LTX.frames,
    text_lengths=LTX.text_lengths,
    schedulers=LTX.schedulers,
    guidance=LTX.guidance,
    lora_targets=LTX.lora_targets,
    arguments=(*LTX.arguments, {"decode_timestep": 0.05, "decode_noise_scale": 0.025}, {"denoise_strength": 0.5}),
    plans=(
        {"data": 2},
        {"device_map": {"transformer": [1, 0], "vae": [1, 0]}},
        offloaded("transformer", "vae"),
    ),
)
