"""Lumina 2: two blocks and one refiner each for picture and text, six heads of 12 that share two of keys; Gemma 2."""

from __future__ import annotations

from pathlib import Path

from diffusers import FlowMatchEulerDiscreteScheduler, Lumina2Pipeline, Lumina2Transformer2DModel

from .family import Family
from .parts import autoencoder, gemma_encoder, gemma_tokenizer, randomise, soften

WIDTH = 32


def save(folder: Path) -> Path:
    """Saves the pipeline."""
    tokenizer = gemma_tokenizer()
    text_encoder = gemma_encoder(tokenizer, WIDTH)
    transformer = Lumina2Transformer2DModel(
        sample_size=16,
        in_channels=4,
        hidden_size=72,
        num_layers=2,
        num_refiner_layers=1,
        num_attention_heads=6,
        num_kv_heads=2,
        multiple_of=16,
        axes_dim_rope=(4, 4, 4),
        axes_lens=(128, 32, 32),
        cap_feat_dim=WIDTH,
    )
    # Eight pixels on the side of a latent, as the pipeline has it for every autoencoder.
    vae = autoencoder(levels=4)
    for seed, module in enumerate((text_encoder, transformer, vae)):
        randomise(module, seed)
    soften(vae)
    scheduler = FlowMatchEulerDiscreteScheduler(shift=6.0, use_dynamic_shifting=False)
    Lumina2Pipeline(transformer, scheduler, vae, text_encoder, tokenizer).save_pretrained(folder)
    return folder


LUMINA2 = Family(
    name="lumina2",
    save=save,
    parts=("text_encoder", "vae"),
    sizes=((64, 64), (64, 96), (80, 48), (96, 96), (72, 64)),
    text_lengths=(32, 48, 64, 20),
    args={"system_prompt": "red"},
    schedulers=(
        {"class": "FlowMatchEulerDiscreteScheduler", "stochastic_sampling": True},
        {"class": "FlowMatchEulerDiscreteScheduler", "use_dynamic_shifting": True},
        {"class": "FlowMatchHeunDiscreteScheduler"},
    ),
    guidance=({}, {"guidance": 1.0}, {"true_cfg": 3.0}, {"true_cfg": 2.0, "negative_prompt": "green tree"}),
    lora_targets=("to_q", "to_k", "to_out.0"),
    encoder_degree=2,
    text_length=32,
    arguments=(
        {"sigmas": [1.0, 0.4]},
        {"cfg_normalization": False},
        {"cfg_trunc_ratio": 0.5},
        {"attention_kwargs": {"scale": 0.5}},
    ),
)
