"""Wan: two blocks, four heads of 12; with one denoiser, and with two and the boundary between them."""

from __future__ import annotations

from pathlib import Path

from diffusers import (
    AutoencoderKLWan,
    FlowMatchEulerDiscreteScheduler,
    WanImageToVideoPipeline,
    WanPipeline,
    WanTransformer3DModel,
)

from .family import RING, ULYSSES, UNEVEN, UNEVEN_RING, UNIFIED, Family
from .parts import WIDTH, randomise, soften, t5_tokenizer, umt5_encoder


def save(folder: Path, experts: int = 1) -> Path:
    """Saves the pipeline."""
    tokenizer = t5_tokenizer()
    text_encoder = umt5_encoder(tokenizer)
    vae = AutoencoderKLWan(
        base_dim=8, z_dim=16, dim_mult=[1, 1, 1, 1], num_res_blocks=1, temperal_downsample=[False, True, True]
    )
    denoisers = [_denoiser() for _ in range(experts)]
    for seed, module in enumerate((text_encoder, vae, *denoisers)):
        randomise(module, seed)
    soften(vae, 0.5)
    pipeline = WanPipeline(
        tokenizer=tokenizer,
        text_encoder=text_encoder,
        vae=vae,
        scheduler=FlowMatchEulerDiscreteScheduler(shift=7.0),
        transformer=denoisers[0],
        transformer_2=denoisers[1] if experts == 2 else None,
        # With two steps the first is above the boundary and the second below it.
        boundary_ratio=0.95 if experts == 2 else None,
    )
    pipeline.save_pretrained(folder)
    return folder


def save_from_picture(folder: Path) -> Path:
    """Saves a pipeline that starts from a picture, stacked on the latents with four channels of mask (Wan 2.2)."""
    save(folder)
    plain = WanPipeline.from_pretrained(folder)
    transformer = _denoiser(in_channels=36)
    randomise(transformer, 3)
    WanImageToVideoPipeline(
        tokenizer=plain.tokenizer,
        text_encoder=plain.text_encoder,
        vae=plain.vae,
        scheduler=plain.scheduler,
        transformer=transformer,
    ).save_pretrained(folder)
    return folder


def save_two(folder: Path) -> Path:
    """Saves the pipeline with two denoisers."""
    return save(folder, experts=2)


def _denoiser(in_channels: int = 16) -> WanTransformer3DModel:
    return WanTransformer3DModel(
        patch_size=(1, 2, 2),
        num_attention_heads=4,
        attention_head_dim=12,
        in_channels=in_channels,
        out_channels=16,
        text_dim=WIDTH,
        freq_dim=256,
        ffn_dim=32,
        num_layers=2,
        cross_attn_norm=True,
        qk_norm="rms_norm_across_heads",
        rope_max_seq_len=32,
    )


WAN = Family(
    name="wan",
    save=save,
    parts=("text_encoder", "vae"),
    sizes=((32, 32), (48, 32), (64, 48), (48, 48), (80, 32), (40, 32)),
    frames=(5, 5, 9, 1, 6),
    text_lengths=(8, 12, 7, 16),
    schedulers=(
        {"class": "UniPCMultistepScheduler", "use_flow_sigmas": True, "prediction_type": "flow_prediction"},
        {"class": "FlowMatchEulerDiscreteScheduler", "stochastic_sampling": True},
        {"shift": 3.0},
    ),
    guidance=({}, {"guidance": 1.0}, {"true_cfg": 3.0}, {"true_cfg": 2.0, "negative_prompt": "green tree"}),
    lora_targets=("to_q", "to_k", "to_out.0"),
    strategies=("data", "context", "context", "map"),
    splits=(ULYSSES, RING, UNIFIED, UNEVEN, UNEVEN_RING, {"data": 2, **ULYSSES}),
    arguments=({"guidance_scale_2": 2.0}, {"attention_kwargs": {}}),
)
WAN_TWO = Family(
    name="wan-two",
    save=save_two,
    denoisers=("transformer", "transformer_2"),
    parts=WAN.parts,
    sizes=WAN.sizes,
    frames=WAN.frames,
    text_lengths=WAN.text_lengths,
    schedulers=WAN.schedulers,
    guidance=(*WAN.guidance, {"guidance": 3.0, "args": {"guidance_scale_2": 2.0}}),
    lora_targets=WAN.lora_targets,
    strategies=("data", "context", "context", "map"),
    splits=(ULYSSES, RING, UNIFIED, {"components": {"transformer_2": ULYSSES}}),
    arguments=({"guidance_scale_2": 2.0}, {"attention_kwargs": {}}),
)
