"""Wan: two blocks, four heads of 12; with one denoiser, and with two and the boundary between them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from diffusers import (
    AutoencoderKLWan,
    FlowMatchEulerDiscreteScheduler,
    WanImageToVideoPipeline,
    WanPipeline,
    WanTransformer3DModel,
    WanVACEPipeline,
    WanVACETransformer3DModel,
)

from .family import RING, ULYSSES, UNEVEN, UNEVEN_RING, UNIFIED, Family, offloaded
from .parts import (
    PICTURE,
    SEEN,
    WIDTH,
    randomise,
    soften,
    t5_tokenizer,
    umt5_encoder,
    vision_encoder,
    vision_processor,
    wan_autoencoder,
)


def save(folder: Path, experts: int = 1) -> Path:
    """Saves the pipeline."""
    tokenizer = t5_tokenizer()
    text_encoder = umt5_encoder(tokenizer)
    vae = wan_autoencoder()
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


def _save_other(folder: Path, pipeline_class: Any, **other: Any) -> Path:
    """Saves a pipeline of the same parts, but for some."""
    plain = WanPipeline.from_pretrained(save(folder))
    parts = {name: getattr(plain, name) for name in ("tokenizer", "text_encoder", "vae", "scheduler", "transformer")}
    pipeline_class(**{**parts, **other}).save_pretrained(folder)
    return folder


def save_from_picture(folder: Path) -> Path:
    """Saves a pipeline that starts from a picture, stacked on the latents with four channels of mask (Wan 2.2)."""
    transformer = _denoiser(in_channels=36)
    randomise(transformer, 3)
    return _save_other(folder, WanImageToVideoPipeline, transformer=transformer)


def save_seeing(folder: Path) -> Path:
    """Saves a pipeline of Wan 2.1 that starts from a picture, which an encoder of its own sees besides."""
    image_encoder = vision_encoder(projected=True)
    transformer = _denoiser(in_channels=36, image_dim=SEEN, added_kv_proj_dim=4 * 12)
    for seed, module in enumerate((image_encoder, transformer)):
        randomise(module, seed + 3)
    seeing = {"image_encoder": image_encoder, "image_processor": vision_processor()}
    return _save_other(folder, WanImageToVideoPipeline, transformer=transformer, **seeing)


def save_vace(folder: Path) -> Path:
    """Saves a pipeline whose denoiser has blocks for control beside its own."""
    transformer = WanVACETransformer3DModel(**_SETTINGS, in_channels=16, vace_layers=[0, 1], vace_in_channels=96)
    randomise(transformer, 3)
    return _save_other(folder, WanVACEPipeline, transformer=transformer)


def save_expanded(folder: Path) -> Path:
    """Saves a pipeline of Wan 2.2 with 5 billion parameters: a time for each token, and another autoencoder."""
    vae = AutoencoderKLWan(
        base_dim=8,
        decoder_base_dim=8,
        z_dim=16,
        dim_mult=[1, 1, 1, 1],
        num_res_blocks=1,
        temperal_downsample=[False, True, True],
        is_residual=True,
        in_channels=12,
        out_channels=12,
        patch_size=2,
        scale_factor_spatial=16,
    )
    randomise(vae, 3)
    soften(vae, 0.5)
    return _save_other(folder, WanPipeline, vae=vae, expand_timesteps=True)


def save_two(folder: Path) -> Path:
    """Saves the pipeline with two denoisers."""
    return save(folder, experts=2)


_SETTINGS: dict[str, Any] = {
    "patch_size": (1, 2, 2),
    "num_attention_heads": 4,
    "attention_head_dim": 12,
    "out_channels": 16,
    "text_dim": WIDTH,
    "freq_dim": 256,
    "ffn_dim": 32,
    "num_layers": 2,
    "cross_attn_norm": True,
    "qk_norm": "rms_norm_across_heads",
    "rope_max_seq_len": 32,
}


def _denoiser(in_channels: int = 16, **own: Any) -> WanTransformer3DModel:
    return WanTransformer3DModel(**_SETTINGS, in_channels=in_channels, **own)


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
WAN_SEEING = Family(
    name="wan-seeing",
    kept=("image_encoder",),
    save=save_seeing,
    parts=("text_encoder", "image_encoder", "vae"),
    sizes=WAN.sizes,
    frames=WAN.frames,
    text_lengths=(None, None, None, 512, 16),
    schedulers=WAN.schedulers,
    guidance=WAN.guidance,
    lora_targets=WAN.lora_targets,
    strategies=("data", "context", "context", "map"),
    arguments=({"attention_kwargs": {}},),
    text_length=512,
    images=(PICTURE,),
    plans=(
        *(ULYSSES, RING, UNEVEN_RING),
        {"device_map": {"transformer": [1, 0], "image_encoder": [0, 1], "vae": 2}},
        offloaded("transformer", "image_encoder"),
    ),
)
WAN_VACE = Family(
    name="wan-vace",
    save=save_vace,
    parts=WAN.parts,
    sizes=WAN.sizes,
    frames=WAN.frames,
    text_lengths=WAN.text_lengths,
    schedulers=WAN.schedulers,
    guidance=WAN.guidance,
    lora_targets=WAN.lora_targets,
    arguments=({"conditioning_scale": 0.5}, {"conditioning_scale": [0.5, 0.2]}),
    plans=(
        {"data": 2},
        {"device_map": {"transformer": [1, 0], "vae": 2}},
        offloaded("transformer", "vae"),
    ),
)
WAN_EXPANDED = Family(
    name="wan-expanded",
    save=save_expanded,
    parts=WAN.parts,
    sizes=((64, 64), (96, 64), (96, 96), (128, 64), (80, 64)),
    frames=WAN.frames,
    text_lengths=WAN.text_lengths,
    schedulers=WAN.schedulers,
    guidance=WAN.guidance,
    lora_targets=WAN.lora_targets,
    strategies=("data", "context", "context", "map"),
    plans=(ULYSSES, RING, UNIFIED, UNEVEN, UNEVEN_RING, {"device_map": {"transformer": [1, 0], "vae": 2}}),
)
