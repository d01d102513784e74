"""PixArt-Sigma: two blocks, four heads of 16; T5, a denoiser that tells its variance too, no adapters."""

from __future__ import annotations

from pathlib import Path

from diffusers import DPMSolverMultistepScheduler, PixArtSigmaPipeline, PixArtTransformer2DModel

from .family import Family
from .parts import WIDTH, autoencoder, randomise, soften, t5_encoder, t5_tokenizer


def save(folder: Path) -> Path:
    """Saves the pipeline."""
    tokenizer = t5_tokenizer()
    transformer = PixArtTransformer2DModel(
        sample_size=32,
        num_layers=2,
        num_attention_heads=4,
        attention_head_dim=16,
        in_channels=4,
        out_channels=8,
        cross_attention_dim=64,
        caption_channels=WIDTH,
        use_additional_conditions=False,
    )
    text_encoder, vae = t5_encoder(tokenizer), autoencoder(mid_block_add_attention=True, shift_factor=None)
    for seed, module in enumerate((text_encoder, transformer, vae)):
        randomise(module, seed)
    soften(vae)
    # Little noise, so that latents stay small and an absolute difference means the same as in other families.
    scheduler = DPMSolverMultistepScheduler(beta_end=0.002)
    PixArtSigmaPipeline(tokenizer, text_encoder, vae, transformer, scheduler).save_pretrained(folder)
    return folder


PIXART = Family(
    name="pixart",
    save=save,
    parts=("text_encoder", "vae"),
    sizes=((32, 32), (32, 48), (40, 24), (48, 48), (36, 32)),
    text_lengths=(8, 12, 7, 16),
    # Pictures of the asked size, not of the nearest of its own.
    args={"use_resolution_binning": False},
    schedulers=(
        {"class": "EulerAncestralDiscreteScheduler"},
        {"class": "DDIMScheduler"},
        {"class": "DPMSolverMultistepScheduler", "algorithm_type": "sde-dpmsolver++"},
        {"class": "HeunDiscreteScheduler"},
    ),
    guidance=({}, {"guidance": 1.0}, {"true_cfg": 3.0}, {"true_cfg": 2.0, "negative_prompt": "green tree"}),
    lora_targets=(),
    noise={"class": "EulerAncestralDiscreteScheduler"},
    spare=("text_encoder",),
    arguments=(
        {"sigmas": [1.0, 0.4]},
        {"timesteps": [900, 300]},
        {"clean_caption": False},
        {"eta": 0.5},
        {"use_resolution_binning": True},
    ),
)
