"""A LoRA for a tiny pipeline that changes its pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import diffusers
import torch
from diffusers import DiffusionPipeline

from .family import Family


def save(folder: Path, model: Path, family: Family) -> Path:
    """Saves an adapter of rank 2 for the pipeline's denoiser."""
    from peft import LoraConfig
    from peft.utils import get_peft_model_state_dict

    pipeline_class: Any = getattr(diffusers, DiffusionPipeline.load_config(model)["_class_name"])
    name = family.denoisers[0]
    class_name = DiffusionPipeline.load_config(model)[name][1]
    denoiser = getattr(diffusers, class_name).from_pretrained(model / name)
    denoiser.add_adapter(LoraConfig(r=2, lora_alpha=2, target_modules=list(family.lora_targets)))
    generator = torch.Generator().manual_seed(9)
    for parameter_name, parameter in denoiser.named_parameters():
        if "lora_" in parameter_name:
            parameter.data = torch.randn(parameter.shape, generator=generator) * 0.3
    layers = {f"{'unet' if name == 'unet' else 'transformer'}_lora_layers": get_peft_model_state_dict(denoiser)}
    pipeline_class.save_lora_weights(folder, **layers)
    return folder
