"""Chroma: two double and two single blocks, four heads of 16; a mask over the text's padding, and no guidance of its
own."""

from __future__ import annotations

from pathlib import Path

from diffusers import ChromaPipeline, ChromaTransformer2DModel, FlowMatchEulerDiscreteScheduler

from .family import Family
from .parts import WIDTH, autoencoder, randomise, soften, t5_encoder, t5_tokenizer


def save(folder: Path) -> Path:
    """Saves the pipeline."""
    tokenizer = t5_tokenizer()
    transformer = ChromaTransformer2DModel(
        patch_size=1,
        in_channels=16,
        num_layers=2,
        num_single_layers=2,
        attention_head_dim=16,
        num_attention_heads=4,
        joint_attention_dim=WIDTH,
        axes_dims_rope=(4, 6, 6),
        approximator_num_channels=8,
        approximator_hidden_dim=32,
        approximator_layers=2,
    )
    text_encoder, vae = t5_encoder(tokenizer), autoencoder()
    for seed, module in enumerate((text_encoder, transformer, vae)):
        randomise(module, seed)
    soften(vae)
    scheduler = FlowMatchEulerDiscreteScheduler(shift=3.0, use_dynamic_shifting=True)
    ChromaPipeline(scheduler, vae, text_encoder, tokenizer, transformer).save_pretrained(folder)
    return folder


CHROMA = Family(
    name="chroma",
    save=save,
    parts=("text_encoder", "vae"),
    sizes=((32, 32), (32, 48), (36, 36), (40, 24), (30, 34), (28, 44)),
    text_lengths=(8, 12, 7, 16, 5),
    schedulers=(
        {"class": "FlowMatchEulerDiscreteScheduler", "stochastic_sampling": True},
        {"class": "FlowMatchEulerDiscreteScheduler", "use_dynamic_shifting": False},
        {"class": "FlowMatchHeunDiscreteScheduler"},
        {"class": "UniPCMultistepScheduler", "use_flow_sigmas": True, "prediction_type": "flow_prediction"},
    ),
    guidance=({}, {"guidance": 1.0}, {"true_cfg": 3.0}, {"true_cfg": 2.0, "negative_prompt": "green tree"}),
    lora_targets=("to_q", "to_k", "to_out.0", "proj_mlp"),
    arguments=({"sigmas": [1.0, 0.4]}, {"joint_attention_kwargs": {"scale": 0.5}}, {"timesteps": [900, 300]}),
)
