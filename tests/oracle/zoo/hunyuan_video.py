"""HunyuanVideo: two double and two single blocks, four heads of 16; a Llama that reads a long template first."""

from __future__ import annotations

from pathlib import Path

from diffusers import (
    AutoencoderKLHunyuanVideo,
    FlowMatchEulerDiscreteScheduler,
    HunyuanVideoPipeline,
    HunyuanVideoTransformer3DModel,
)
from diffusers.pipelines.hunyuan_video.pipeline_hunyuan_video import DEFAULT_PROMPT_TEMPLATE
from transformers import LlamaConfig, LlamaModel

from .family import Family, offloaded
from .parts import WIDTH, byte_tokenizer, clip_encoder, clip_tokenizer, randomise, soften


def autoencoder() -> AutoencoderKLHunyuanVideo:
    """An autoencoder of videos: eight pixels on the side of a latent, four frames."""
    return AutoencoderKLHunyuanVideo(
        latent_channels=4, block_out_channels=(8, 8, 8, 8), layers_per_block=1, norm_num_groups=4
    )


def save(folder: Path) -> Path:
    """Saves the pipeline."""
    tokenizer, clip = byte_tokenizer(DEFAULT_PROMPT_TEMPLATE["template"]), clip_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=WIDTH,
        intermediate_size=2 * WIDTH,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        pad_token_id=tokenizer.pad_token_id,
    )
    transformer = HunyuanVideoTransformer3DModel(
        in_channels=4,
        out_channels=4,
        num_attention_heads=4,
        attention_head_dim=16,
        num_layers=2,
        num_single_layers=2,
        num_refiner_layers=1,
        text_embed_dim=WIDTH,
        pooled_projection_dim=WIDTH,
        rope_axes_dim=(4, 6, 6),
    )
    # The pipeline fills its second text to 77 tokens, whatever the tokenizer says.
    encoders, vae = (LlamaModel(config), clip_encoder(clip, positions=77)), autoencoder()
    for seed, module in enumerate((*encoders, transformer, vae)):
        randomise(module, seed)
    soften(vae)
    pipeline = HunyuanVideoPipeline(
        text_encoder=encoders[0],
        tokenizer=tokenizer,
        transformer=transformer,
        vae=vae,
        scheduler=FlowMatchEulerDiscreteScheduler(shift=7.0),
        text_encoder_2=encoders[1],
        tokenizer_2=clip,
    )
    pipeline.save_pretrained(folder)
    return folder


HUNYUAN_VIDEO = Family(
    name="hunyuan-video",
    save=save,
    parts=("text_encoder", "text_encoder_2", "vae"),
    sizes=((32, 32), (48, 32), (48, 48), (80, 32), (40, 32)),
    frames=(5, 9, 1, 6),
    text_lengths=(40, 48, 32),
    schedulers=({"class": "FlowMatchEulerDiscreteScheduler", "stochastic_sampling": True}, {"shift": 3.0}),
    guidance=({}, {"guidance": 1.0}, {"true_cfg": 3.0}, {"true_cfg": 2.0, "negative_prompt": "green tree"}),
    lora_targets=("to_q", "to_k", "to_out.0"),
    arguments=(
        {"prompt_2": "green tree"},
        {"sigmas": [1.0, 0.4]},
        {"prompt_template": {"template": "a video of {}", "crop_start": 3}},
    ),
    text_length=40,
    plans=(
        {"data": 2},
        {"components": {"text_encoder": {"tensor": 2}}},
        {"device_map": {"transformer": [1, 0], "text_encoder_2": 1}},
        {"device_map": {"text_encoder": [0, 1], "vae": [1, 0], "transformer": 2, "text_encoder_2": 2}},
        offloaded("transformer", "text_encoder", "vae"),
    ),
)
