"""Flux: two double and two single blocks, four heads of 16; two encoders."""

from __future__ import annotations

from pathlib import Path

from diffusers import FlowMatchEulerDiscreteScheduler, FluxPipeline, FluxTransformer2DModel

from .family import RING, ULYSSES, UNEVEN, UNEVEN_RING, UNIFIED, Family
from .parts import WIDTH, autoencoder, clip_encoder, clip_tokenizer, randomise, soften, t5_encoder, t5_tokenizer

BLOCKS = 2


def save(folder: Path) -> Path:
    """Saves the pipeline."""
    clip, t5 = clip_tokenizer(), t5_tokenizer()
    transformer = FluxTransformer2DModel(
        patch_size=1,
        in_channels=16,
        num_layers=BLOCKS,
        num_single_layers=BLOCKS,
        attention_head_dim=16,
        num_attention_heads=4,
        joint_attention_dim=WIDTH,
        pooled_projection_dim=WIDTH,
        guidance_embeds=False,
        axes_dims_rope=(4, 6, 6),
    )
    text_encoder, text_encoder_2, vae = clip_encoder(clip), t5_encoder(t5), autoencoder()
    for seed, module in enumerate((text_encoder, text_encoder_2, transformer, vae)):
        randomise(module, seed)
    soften(vae)
    scheduler = FlowMatchEulerDiscreteScheduler(shift=1.0, use_dynamic_shifting=False)
    FluxPipeline(scheduler, vae, text_encoder, clip, text_encoder_2, t5, transformer).save_pretrained(folder)
    return folder


FLUX = Family(
    name="flux",
    save=save,
    parts=("text_encoder", "text_encoder_2", "vae"),
    sizes=((32, 32), (32, 48), (36, 36), (40, 24), (30, 34), (28, 44)),
    text_lengths=(8, 12, 7, 16, 5),
    schedulers=(
        {"class": "FlowMatchEulerDiscreteScheduler", "stochastic_sampling": True},
        {"class": "FlowMatchEulerDiscreteScheduler", "shift": 3.0},
        {"class": "FlowMatchHeunDiscreteScheduler"},
        {"class": "FlowMatchLCMScheduler"},
    ),
    guidance=({}, {"guidance": 3.5}, {"true_cfg": 3.0}, {"true_cfg": 2.0, "negative_prompt": "green tree"}),
    lora_targets=("to_q", "to_k", "to_out.0", "proj_mlp"),
    strategies=("data", "tensor", "context", "context", "map"),
    splits=({"tensor": 2}, {"tensor": 4}, ULYSSES, RING, UNIFIED, UNEVEN, UNEVEN_RING),
    cuts_autoencoder=True,
    arguments=(
        {"sigmas": [1.0, 0.4]},
        {"joint_attention_kwargs": {"scale": 0.5}},
        {"prompt_2": "green tree"},
        {"negative_prompt_2": "face"},
    ),
)
