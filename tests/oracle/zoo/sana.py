"""Sana: two blocks with linear attention, eight heads of 8; Gemma 2, and an autoencoder of two levels with linear
attention of its own."""

from __future__ import annotations

from pathlib import Path

from diffusers import AutoencoderDC, DPMSolverMultistepScheduler, SanaPipeline, SanaTransformer2DModel

from .family import Family
from .parts import gemma_encoder, gemma_tokenizer, randomise, soften

WIDTH = 32


def save(folder: Path) -> Path:
    """Saves the pipeline."""
    tokenizer = gemma_tokenizer()
    text_encoder = gemma_encoder(tokenizer, WIDTH)
    transformer = SanaTransformer2DModel(
        in_channels=4,
        out_channels=4,
        num_attention_heads=8,
        attention_head_dim=8,
        num_layers=2,
        num_cross_attention_heads=4,
        cross_attention_head_dim=16,
        cross_attention_dim=64,
        caption_channels=WIDTH,
        sample_size=32,
    )
    vae = AutoencoderDC(
        latent_channels=4,
        attention_head_dim=4,
        encoder_block_types=("ResBlock", "ResBlock", "EfficientViTBlock"),
        decoder_block_types=("ResBlock", "ResBlock", "EfficientViTBlock"),
        encoder_block_out_channels=(8, 8, 16),
        decoder_block_out_channels=(8, 8, 16),
        encoder_layers_per_block=(1, 1, 1),
        decoder_layers_per_block=(1, 1, 1),
        encoder_qkv_multiscales=((), (), (5,)),
        decoder_qkv_multiscales=((), (), (5,)),
        downsample_block_type="Conv",
        upsample_block_type="interpolate",
        scaling_factor=0.6,
    )
    for seed, module in enumerate((text_encoder, transformer, vae)):
        randomise(module, seed)
    soften(vae)
    scheduler = DPMSolverMultistepScheduler(
        use_flow_sigmas=True, flow_shift=3.0, prediction_type="flow_prediction", final_sigmas_type="zero"
    )
    SanaPipeline(tokenizer, text_encoder, vae, transformer, scheduler).save_pretrained(folder)
    return folder


SANA = Family(
    name="sana",
    save=save,
    parts=("text_encoder", "vae"),
    sizes=((64, 64), (64, 96), (96, 32), (96, 96), (72, 64)),
    text_lengths=(32, 12, 7),
    # Pictures of the asked size, not of the nearest of its own.
    args={"use_resolution_binning": False, "complex_human_instruction": None},
    schedulers=(
        {"class": "FlowMatchEulerDiscreteScheduler"},
        {"class": "SCMScheduler"},
        {"class": "DPMSolverMultistepScheduler", "algorithm_type": "sde-dpmsolver++"},
        {"class": "UniPCMultistepScheduler"},
    ),
    guidance=({}, {"guidance": 1.0}, {"true_cfg": 3.0}, {"true_cfg": 2.0, "negative_prompt": "green tree"}),
    lora_targets=("to_q", "to_k", "to_out.0"),
    encoder_degree=2,
    cuts_autoencoder=True,
    noise={"class": "DPMSolverMultistepScheduler", "algorithm_type": "sde-dpmsolver++"},
    arguments=(
        {"sigmas": [1.0, 0.4]},
        {"timesteps": [900, 300]},
        {"clean_caption": True},
        {"eta": 0.5},
        {"use_resolution_binning": True},
        {"complex_human_instruction": ["green", "tree"]},
        {"attention_kwargs": {"scale": 0.5}},
    ),
)
