"""Stable Diffusion 1.5, with a safety checker, and 2.1: a UNet of two levels and one encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from diffusers import DDIMScheduler, PNDMScheduler, StableDiffusionPipeline, UNet2DConditionModel
from diffusers.pipelines.stable_diffusion.safety_checker import StableDiffusionSafetyChecker
from transformers import CLIPConfig, CLIPImageProcessor

from .family import Family
from .parts import WIDTH, autoencoder, clip_encoder, clip_tokenizer, randomise, soften


def save(folder: Path) -> Path:
    """Saves the pipeline of version 1.5."""
    checker = StableDiffusionSafetyChecker(
        CLIPConfig(
            projection_dim=16,
            vision_config={
                "hidden_size": 32,
                "intermediate_size": 64,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "image_size": 32,
                "patch_size": 8,
            },
        )
    )
    randomise(checker, 3)
    # No picture is as near as 1 to a concept, so none is painted black.
    for thresholds in (checker.concept_embeds_weights, checker.special_care_embeds_weights):
        thresholds.data.fill_(1.0)
    extractor = CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    # Little noise, so that latents stay small and an absolute difference means the same as in other families.
    scheduler = PNDMScheduler(beta_end=0.002, beta_schedule="scaled_linear", skip_prk_steps=True, steps_offset=1)
    return _save(folder, scheduler, _unet(attention_head_dim=4), checker, extractor)


def save_two(folder: Path) -> Path:
    """Saves the pipeline of version 2.1."""
    scheduler = DDIMScheduler(
        beta_end=0.002, beta_schedule="scaled_linear", prediction_type="v_prediction", steps_offset=1, clip_sample=False
    )
    unet = _unet(attention_head_dim=(2, 4), use_linear_projection=True, upcast_attention=True)
    return _save(folder, scheduler, unet, None, None)


def _save(folder: Path, scheduler: Any, unet: Any, checker: Any, extractor: Any) -> Path:
    tokenizer = clip_tokenizer()
    text_encoder, vae = clip_encoder(tokenizer), autoencoder(shift_factor=None, mid_block_add_attention=True)
    for seed, module in enumerate((text_encoder, unet, vae)):
        randomise(module, seed)
    soften(vae)
    pipeline = StableDiffusionPipeline(
        vae=vae,
        text_encoder=text_encoder,
        tokenizer=tokenizer,
        unet=unet,
        scheduler=scheduler,
        safety_checker=checker,
        feature_extractor=extractor,
        requires_safety_checker=checker is not None,
    )
    pipeline.save_pretrained(folder)
    return folder


def _unet(**settings: Any) -> UNet2DConditionModel:
    return UNet2DConditionModel(
        sample_size=16,
        in_channels=4,
        out_channels=4,
        block_out_channels=(32, 64),
        layers_per_block=1,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=WIDTH,
        norm_num_groups=8,
        **settings,
    )


_ARGUMENTS: tuple[dict[str, Any], ...] = (
    {"clip_skip": 1},
    {"guidance_rescale": 0.7},
    {"eta": 0.5},
    {"timesteps": [900, 300]},
    {"cross_attention_kwargs": {"scale": 0.5}},
)
_GUIDANCE: tuple[dict[str, Any], ...] = (
    {},
    {"guidance": 1.0},
    {"true_cfg": 3.0},
    {"true_cfg": 2.0, "negative_prompt": "green tree"},
)
_SCHEDULERS: tuple[dict[str, Any], ...] = (
    {"class": "EulerAncestralDiscreteScheduler"},
    {"class": "DDIMScheduler"},
    {"class": "LCMScheduler"},
    {"class": "DPMSolverMultistepScheduler", "use_karras_sigmas": True},
    {"class": "HeunDiscreteScheduler"},
)
SD = Family(
    name="sd",
    save=save,
    denoisers=("unet",),
    parts=("text_encoder", "safety_checker", "vae"),
    sizes=((32, 32), (32, 48), (40, 24), (36, 36)),
    schedulers=_SCHEDULERS,
    guidance=_GUIDANCE,
    lora_targets=("to_q", "to_k", "to_out.0"),
    spare=("safety_checker",),
    noise={"class": "EulerAncestralDiscreteScheduler"},
    arguments=_ARGUMENTS,
)
SD_TWO = Family(
    name="sd-two",
    save=save_two,
    denoisers=("unet",),
    parts=("text_encoder", "vae"),
    sizes=SD.sizes,
    schedulers=_SCHEDULERS,
    guidance=_GUIDANCE,
    lora_targets=SD.lora_targets,
    noise=SD.noise,
    arguments=_ARGUMENTS,
)
