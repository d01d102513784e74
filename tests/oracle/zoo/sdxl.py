"""Stable Diffusion XL: a UNet of two levels; two encoders."""

from __future__ import annotations

from pathlib import Path

from diffusers import EulerDiscreteScheduler, StableDiffusionXLPipeline, UNet2DConditionModel

from .family import Family
from .parts import WIDTH, autoencoder, clip_encoder, clip_tokenizer, randomise, soften


def save(folder: Path) -> Path:
    """Saves the pipeline."""
    tokenizer = clip_tokenizer()
    unet = UNet2DConditionModel(
        sample_size=16,
        in_channels=4,
        out_channels=4,
        block_out_channels=(32, 64),
        layers_per_block=1,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=(2, 4),
        use_linear_projection=True,
        cross_attention_dim=2 * WIDTH,
        transformer_layers_per_block=(1, 1),
        addition_embed_type="text_time",
        addition_time_embed_dim=8,
        projection_class_embeddings_input_dim=WIDTH + 6 * 8,
        norm_num_groups=8,
    )
    text_encoder, text_encoder_2, vae = clip_encoder(tokenizer), clip_encoder(tokenizer, projected=True), autoencoder()
    for seed, module in enumerate((text_encoder, text_encoder_2, unet, vae)):
        randomise(module, seed)
    soften(vae)
    pipeline = StableDiffusionXLPipeline(
        vae=vae,
        text_encoder=text_encoder,
        text_encoder_2=text_encoder_2,
        tokenizer=tokenizer,
        tokenizer_2=tokenizer,
        unet=unet,
        # Little noise, so that latents stay small and an absolute difference means the same as in other families.
        scheduler=EulerDiscreteScheduler(beta_end=0.002, beta_schedule="scaled_linear", timestep_spacing="leading"),
    )
    pipeline.save_pretrained(folder)
    return folder


SDXL = Family(
    name="sdxl",
    save=save,
    denoisers=("unet",),
    parts=("text_encoder", "text_encoder_2", "vae"),
    sizes=((32, 32), (32, 48), (40, 24), (36, 36)),
    schedulers=(
        {"class": "EulerAncestralDiscreteScheduler"},
        {"class": "DDIMScheduler"},
        {"class": "LCMScheduler"},
        {"class": "DPMSolverMultistepScheduler", "algorithm_type": "sde-dpmsolver++"},
        {"class": "DPMSolverMultistepScheduler", "use_karras_sigmas": True},
        {"class": "HeunDiscreteScheduler"},
    ),
    guidance=({}, {"guidance": 1.0}, {"true_cfg": 3.0}, {"true_cfg": 2.0, "negative_prompt": "green tree"}),
    lora_targets=("to_q", "to_k", "to_out.0"),
    noise={"class": "EulerAncestralDiscreteScheduler"},
    arguments=(
        {"clip_skip": 1},
        {"guidance_rescale": 0.7},
        {"eta": 0.5},
        {"original_size": [32, 32]},
        {"prompt_2": "green tree"},
        {"timesteps": [900, 300]},
        {"denoising_end": 0.6},
        {"cross_attention_kwargs": {"scale": 0.5}},
    ),
)
