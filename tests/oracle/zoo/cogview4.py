"""CogView 4: two blocks, four heads of 16; GLM, whose text has the length of the longest prompt of a call."""

from __future__ import annotations

from pathlib import Path

from diffusers import CogView4Pipeline, CogView4Transformer2DModel, FlowMatchEulerDiscreteScheduler
from tokenizers.processors import TemplateProcessing
from transformers import GlmConfig, GlmModel

from .family import Family
from .parts import autoencoder, byte_tokenizer, randomise, soften

WIDTH = 32


def save(folder: Path) -> Path:
    """Saves the pipeline."""
    tokenizer = byte_tokenizer()
    tokenizer.padding_side = "left"
    # No prompt is without a token.
    first = tokenizer.convert_tokens_to_ids("<unk>")
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<unk> $A", special_tokens=[("<unk>", first)]
    )
    text_encoder = GlmModel(
        GlmConfig(
            vocab_size=len(tokenizer),
            hidden_size=WIDTH,
            intermediate_size=2 * WIDTH,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=8,
            attention_bias=True,
            max_position_embeddings=1024,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    transformer = CogView4Transformer2DModel(
        in_channels=4,
        out_channels=4,
        num_layers=2,
        attention_head_dim=16,
        num_attention_heads=4,
        text_embed_dim=WIDTH,
        time_embed_dim=32,
        condition_dim=8,
        sample_size=32,
        rope_axes_dim=(16, 16),
    )
    vae = autoencoder()
    for seed, module in enumerate((text_encoder, transformer, vae)):
        randomise(module, seed)
    soften(vae)
    scheduler = FlowMatchEulerDiscreteScheduler(
        base_shift=0.25, max_shift=0.75, base_image_seq_len=256, use_dynamic_shifting=True, time_shift_type="linear"
    )
    CogView4Pipeline(tokenizer, text_encoder, vae, transformer, scheduler).save_pretrained(folder)
    return folder


COGVIEW4 = Family(
    name="cogview4",
    save=save,
    parts=("text_encoder", "vae"),
    sizes=((32, 32), (32, 48), (48, 48), (64, 32), (40, 32)),
    text_lengths=(64, 16, 8),
    schedulers=(
        {"class": "FlowMatchEulerDiscreteScheduler", "stochastic_sampling": True},
        {"class": "FlowMatchEulerDiscreteScheduler", "use_dynamic_shifting": False},
        {"class": "FlowMatchHeunDiscreteScheduler"},
    ),
    guidance=({}, {"guidance": 1.0}, {"true_cfg": 3.0}, {"true_cfg": 2.0, "negative_prompt": "green tree"}),
    lora_targets=("to_q", "to_k", "to_out.0"),
    text_length=64,
    pads_without_mask=True,
    arguments=(
        {"sigmas": [1.0, 0.4]},
        {"timesteps": [900, 300]},
        {"original_size": [32, 48]},
        {"crops_coords_top_left": [4, 8]},
        {"attention_kwargs": {"scale": 0.5}},
    ),
)
