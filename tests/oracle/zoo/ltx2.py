"""LTX-2: two blocks that see video and sound; a Gemma 3, connectors, and what makes sound of the latents."""

from __future__ import annotations

from pathlib import Path

from diffusers import (
    AutoencoderKLLTX2Audio,
    AutoencoderKLLTX2Video,
    FlowMatchEulerDiscreteScheduler,
    LTX2Pipeline,
    LTX2VideoTransformer3DModel,
)
from diffusers.pipelines.ltx2 import LTX2TextConnectors, LTX2Vocoder
from transformers import Gemma3Config, Gemma3ForConditionalGeneration

from .family import Family, offloaded
from .parts import byte_tokenizer, randomise, soften

WIDTH, LAYERS = 32, 3
MEL_BINS, SOUND_CHANNELS = 8, 2


def gemma(vocabulary: int) -> Gemma3ForConditionalGeneration:
    """A Gemma 3 of three layers and four heads that share two of keys; there are no pictures to see."""
    text = {
        "vocab_size": vocabulary,
        "hidden_size": WIDTH,
        "intermediate_size": 2 * WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "query_pre_attn_scalar": 8,
        "sliding_window": 16,
        "sliding_window_pattern": 2,
        "max_position_embeddings": 1024,
    }
    vision = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 16,
        "patch_size": 8,
    }
    return Gemma3ForConditionalGeneration(Gemma3Config(text_config=text, vision_config=vision, mm_tokens_per_image=4))


def save(folder: Path) -> Path:
    """Saves the pipeline."""
    tokenizer = byte_tokenizer()
    text_encoder = gemma(len(tokenizer))
    connectors = LTX2TextConnectors(
        caption_channels=WIDTH,
        text_proj_in_factor=LAYERS + 1,
        video_connector_num_attention_heads=4,
        video_connector_attention_head_dim=8,
        video_connector_num_layers=2,
        video_connector_num_learnable_registers=4,
        audio_connector_num_attention_heads=4,
        audio_connector_attention_head_dim=8,
        audio_connector_num_layers=2,
        audio_connector_num_learnable_registers=4,
        connector_rope_base_seq_len=32,
        rope_type="split",
    )
    transformer = LTX2VideoTransformer3DModel(
        in_channels=4,
        out_channels=4,
        num_attention_heads=4,
        attention_head_dim=8,
        cross_attention_dim=WIDTH,
        audio_in_channels=4,
        audio_out_channels=4,
        audio_num_attention_heads=4,
        audio_attention_head_dim=8,
        audio_cross_attention_dim=WIDTH,
        num_layers=2,
        caption_channels=WIDTH,
        rope_type="split",
    )
    vae = AutoencoderKLLTX2Video(
        latent_channels=4,
        block_out_channels=(8, 8, 8, 8),
        decoder_block_out_channels=(8, 16, 32),
        layers_per_block=(1, 1, 1, 1, 1),
        decoder_layers_per_block=(1, 1, 1, 1),
        decoder_causal=False,
        spatial_compression_ratio=32,
        temporal_compression_ratio=8,
    )
    audio_vae = AutoencoderKLLTX2Audio(
        base_channels=4, ch_mult=(1, 1, 1), num_res_blocks=1, resolution=32, latent_channels=2, mel_bins=MEL_BINS
    )
    vocoder = LTX2Vocoder(
        in_channels=SOUND_CHANNELS * MEL_BINS,
        hidden_channels=16,
        upsample_kernel_sizes=[4, 4],
        upsample_factors=[2, 2],
        resnet_kernel_sizes=[3],
        resnet_dilations=[[1, 3]],
    )
    for seed, module in enumerate((text_encoder, connectors, transformer, vae, audio_vae, vocoder)):
        randomise(module, seed)
    soften(vae)
    pipeline = LTX2Pipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True, shift_terminal=0.1),
        vae=vae,
        audio_vae=audio_vae,
        text_encoder=text_encoder,
        tokenizer=tokenizer,
        connectors=connectors,
        transformer=transformer,
        vocoder=vocoder,
    )
    pipeline.save_pretrained(folder)
    return folder


LTX2 = Family(
    name="ltx2",
    save=save,
    parts=("text_encoder", "connectors", "vae", "audio_vae", "vocoder"),
    sizes=((64, 64), (96, 64), (96, 96), (128, 64), (80, 64)),
    frames=(9, 17, 1, 10),
    text_lengths=(16, 32, 8),
    schedulers=({"class": "FlowMatchEulerDiscreteScheduler", "stochastic_sampling": True}, {"shift": 3.0}),
    guidance=({}, {"guidance": 1.0}, {"true_cfg": 3.0}, {"true_cfg": 2.0, "negative_prompt": "green tree"}),
    lora_targets=("to_q", "to_k", "to_out.0"),
    args={"spatio_temporal_guidance_blocks": [1]},
    arguments=({"frame_rate": 12.0}, {"stg_scale": 0.0}, {"modality_scale": 1.0}, {"guidance_rescale": 0.0}),
    text_length=16,
    plans=(
        {"data": 2},
        {"components": {"text_encoder": {"tensor": 2}}},
        {"device_map": {"transformer": [1, 0], "connectors": 1, "audio_vae": 1}},
        {"device_map": {"text_encoder": [0, 1], "transformer": 0, "connectors": 0, "vae": 0, "vocoder": 0}},
        {"device_map": {"vae": [1, 0], "text_encoder": 2, "transformer": 2}},
        {"device_map": {"connectors": [0, 1], "vocoder": [0, 1]}},
        # A small one may fit beside the others whole.
        {"device_map": {"audio_vae": [0, 1]} | dict.fromkeys(("transformer", "text_encoder", "vae", "connectors"), 2)},
        offloaded("transformer", "text_encoder", "connectors", "vae", "audio_vae", "vocoder"),
    ),
)
