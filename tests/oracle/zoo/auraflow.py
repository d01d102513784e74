"""AuraFlow: one double and two single blocks, four heads of 16; UMT5, and a table of 16 positions on a side."""

from __future__ import annotations

from pathlib import Path

from diffusers import AuraFlowPipeline, AuraFlowTransformer2DModel, FlowMatchEulerDiscreteScheduler

from .family import Family
from .parts import WIDTH, autoencoder, randomise, soften, t5_tokenizer, umt5_encoder


def save(folder: Path) -> Path:
    """Saves the pipeline."""
    tokenizer = t5_tokenizer()
    transformer = AuraFlowTransformer2DModel(
        sample_size=16,
        in_channels=4,
        out_channels=4,
        num_mmdit_layers=1,
        num_single_dit_layers=2,
        attention_head_dim=16,
        num_attention_heads=4,
        joint_attention_dim=WIDTH,
        caption_projection_dim=64,
        pos_embed_max_size=256,
    )
    text_encoder, vae = umt5_encoder(tokenizer), autoencoder(mid_block_add_attention=True, shift_factor=None)
    for seed, module in enumerate((text_encoder, transformer, vae)):
        randomise(module, seed)
    soften(vae)
    scheduler = FlowMatchEulerDiscreteScheduler(shift=1.73)
    AuraFlowPipeline(tokenizer, text_encoder, vae, transformer, scheduler).save_pretrained(folder)
    return folder


AURAFLOW = Family(
    name="auraflow",
    save=save,
    parts=("text_encoder", "vae"),
    sizes=((32, 32), (32, 48), (36, 36), (40, 24), (30, 34), (72, 32)),
    text_lengths=(8, 12, 7, 16),
    schedulers=(
        {"class": "FlowMatchEulerDiscreteScheduler", "stochastic_sampling": True},
        {"class": "FlowMatchEulerDiscreteScheduler", "shift": 3.0},
        {"class": "FlowMatchHeunDiscreteScheduler"},
        {"class": "UniPCMultistepScheduler", "use_flow_sigmas": True, "prediction_type": "flow_prediction"},
    ),
    guidance=({}, {"guidance": 1.0}, {"true_cfg": 3.0}, {"true_cfg": 2.0, "negative_prompt": "green tree"}),
    lora_targets=("to_q", "to_k", "to_out.0"),
    arguments=({"sigmas": [1.0, 0.4]}, {"attention_kwargs": {"scale": 0.5}}),
)
