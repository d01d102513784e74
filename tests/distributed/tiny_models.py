"""Tiny pipelines with random weights, and plans for them written by hand: the runtime's input, without a compiler."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from diffusers import (
    AutoencoderKL,
    AutoencoderKLWan,
    FlowMatchEulerDiscreteScheduler,
    FluxPipeline,
    FluxTransformer2DModel,
    WanPipeline,
    WanTransformer3DModel,
)
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from torch import nn
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer, T5Config, T5EncoderModel, T5TokenizerFast

WIDTH = 64
WORDS = ["red", "apple", "panda", "face", "slice", "of", "pizza", "green", "tree"]
PROMPTS = ["red apple", "panda face", "slice of pizza", "green tree", "red face"]
COMPONENTS = {
    "transformer": ("FluxTransformer2DModel", "diffusers"),
    "vae": ("AutoencoderKL", "diffusers"),
    "text_encoder": ("CLIPTextModel", "transformers"),
    "text_encoder_2": ("T5EncoderModel", "transformers"),
}
BLOCKS = 2


def randomise(module: nn.Module, seed: int) -> None:
    """Gives every parameter a value of its own, norms and biases too, so that no layout mistake can hide."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in module.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        one_dimensional = parameter.dim() < 2
        centre = 1.0 if one_dimensional and "norm" in name and "bias" not in name else 0.0
        parameter.data = centre + noise * (0.1 if one_dimensional else parameter.shape[-1] ** -0.5)


def save_flux(folder: Path) -> Path:
    """Saves a Flux pipeline: two double and two single blocks, four heads of 16."""
    clip_tokenizer, t5_tokenizer = _clip_tokenizer(), _t5_tokenizer()
    text_encoder = CLIPTextModel(
        CLIPTextConfig(
            vocab_size=len(clip_tokenizer),
            hidden_size=WIDTH,
            intermediate_size=2 * WIDTH,
            projection_dim=WIDTH,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=16,
            bos_token_id=clip_tokenizer.bos_token_id,
            eos_token_id=clip_tokenizer.eos_token_id,
            pad_token_id=clip_tokenizer.pad_token_id,
        )
    )
    text_encoder_2 = T5EncoderModel(
        T5Config(
            vocab_size=len(t5_tokenizer),
            d_model=WIDTH,
            d_kv=16,
            d_ff=2 * WIDTH,
            num_layers=2,
            num_heads=4,
            feed_forward_proj="gated-gelu",
            dropout_rate=0.0,
        )
    )
    transformer = FluxTransformer2DModel(
        patch_size=1,
        in_channels=16,
        num_layers=BLOCKS,
        num_single_layers=BLOCKS,
        attention_head_dim=16,
        num_attention_heads=4,
        joint_attention_dim=WIDTH,
        pooled_projection_dim=WIDTH,
        guidance_embeds=False,
        axes_dims_rope=(4, 6, 6),
    )
    vae = AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        block_out_channels=(16, 32),
        layers_per_block=1,
        latent_channels=4,
        norm_num_groups=8,
        sample_size=32,
        mid_block_add_attention=False,
        use_quant_conv=False,
        use_post_quant_conv=False,
        shift_factor=0.1,
        scaling_factor=0.6,
        force_upcast=False,
    )
    for seed, module in enumerate((text_encoder, text_encoder_2, transformer, vae)):
        randomise(module, seed)
    vae.decoder.conv_out.weight.data *= 0.2  # keeps pixels off the ends of their range, where differences would vanish
    scheduler = FlowMatchEulerDiscreteScheduler(shift=1.0, use_dynamic_shifting=False)
    pipeline = FluxPipeline(scheduler, vae, text_encoder, clip_tokenizer, text_encoder_2, t5_tokenizer, transformer)
    pipeline.save_pretrained(folder)
    return folder


def plan(
    model: str,
    *,
    axes: dict[str, int] | None = None,
    rows: int = 2,
    components: dict[str, dict[str, Any]] | None = None,
    devices_per_rank: int = 1,
    call: dict[str, Any] | None = None,
    batch: int = 1,
    pipeline: dict[str, Any] | None = None,
    out: Path | str = "out",
    classes: dict[str, tuple[str, str]] | None = None,
) -> dict[str, Any]:
    """A plan for a tiny pipeline; `components` changes what the plan says about one component."""
    axes = axes or {}
    ranks = 1
    for degree in axes.values():
        ranks *= degree
    replicas = axes.get("data", 1)
    parts = {
        name: {
            "class": class_name,
            "library": library,
            "dtype": "float32",
            "id": None,
            "path": None,
            "omit": False,
            "attention": "native" if name == "transformer" else None,
            "tiling": False,
            "device": 0,
            "blocks": None,
            "tensor": None,
            "context": None,
            **((components or {}).get(name, {})),
        }
        for name, (class_name, library) in (classes or COMPONENTS).items()
    }
    each, extra = divmod(rows, replicas)
    starts = [replica * each + min(replica, extra) for replica in range(replicas + 1)]
    return {
        "format_version": 1,
        "name": "tiny",
        "recipe_digest": "sha256:0",
        "program": {
            "device_kind": "cpu",
            "ranks": ranks,
            "nodes": 1,
            "ranks_per_node": ranks,
            "devices_per_rank": devices_per_rank,
            "device_ids": None,
            "mesh_axes": [[axis, degree] for axis, degree in axes.items()],
            "timeout_seconds": 60,
            "env": {},
            "pipeline": {
                "class": "FluxPipeline",
                "id": None,
                "path": model,
                "revision": None,
                "variant": None,
                "dtype": "float32",
                "trust_remote_code": False,
                "scheduler": None,
                "adapters": [],
                **(pipeline or {}),
            },
            "denoisers": ["transformer"],
            "components": parts,
            "run": {
                "rows": [
                    {
                        "index": index,
                        "prompt": PROMPTS[index % len(PROMPTS)],
                        "negative_prompt": None,
                        "seed": 42 + index,
                        "args": {},
                    }
                    for index in range(rows)
                ],
                "batch": batch,
                "shares": [list(range(starts[i], starts[i + 1])) for i in range(replicas)],
                "call": {
                    "height": 32,
                    "width": 32,
                    "num_inference_steps": 3,
                    "guidance_scale": 3.5,
                    "max_sequence_length": 8,
                    **(call or {}),
                },
            },
            "output": {"dir": str(out), "name": "{index:05d}", "format": "png", "fps": None},
        },
    }


def tensor_layout(model: type, folder: Path, degree: int) -> dict[str, Any]:
    """The plan's `tensor` entry from the class's own `_tp_plan`, worked out here on a real model."""
    from diffusers.hooks.tensor_parallel import resolve_tp_shard_specs

    loaded = model.from_pretrained(folder)  # type: ignore[attr-defined]
    specs = resolve_tp_shard_specs(loaded, model._tp_plan, degree)  # type: ignore[attr-defined]
    styles = {}
    for pattern, style in model._tp_plan.items():  # type: ignore[attr-defined]
        text = (
            style
            if isinstance(style, str)
            else {"PackedColwiseParallel": "packed_colwise"}.get(type(style).__name__, "packed_rowwise")
        )
        styles[pattern] = {"style": text, "blocks": []}
    parameters = {
        name: {"dim": spec.dim, "parts": list(spec.block_sizes)} for name, spec in specs.items() if spec.dim is not None
    }
    return {"degree": degree, "plan": "builtin", "styles": styles, "parameters": parameters}


def context_layout(ring: int = 1, ulysses: int = 1, uneven: bool = False) -> dict[str, Any]:
    """The plan's `context` entry."""
    return {"ring": ring, "ulysses": ulysses, "uneven": uneven}


def write_plan(content: dict[str, Any], folder: Path) -> Path:
    """Writes a plan where the compiler would."""
    path = folder / "build" / content["name"] / "plan.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def _clip_tokenizer() -> CLIPTokenizer:
    tokenizer = Tokenizer(models.BPE(unk_token="<|endoftext|>", end_of_word_suffix="</w>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.BpeTrainer(
        vocab_size=200, special_tokens=["<|startoftext|>", "<|endoftext|>"], end_of_word_suffix="</w>"
    )
    tokenizer.train_from_iterator([*WORDS, *"abcdefghijklmnopqrstuvwxyz"], trainer)
    content = json.loads(tokenizer.to_str())["model"]
    return CLIPTokenizer(
        vocab=content["vocab"], merges=[tuple(merge) for merge in content["merges"]], model_max_length=16
    )


def _t5_tokenizer() -> T5TokenizerFast:
    vocabulary = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -10.0)]
    vocabulary += [(f"▁{word}", -2.0) for word in WORDS] + [(letter, -10.0) for letter in "abcdefghijklmnopqrstuvwxyz"]
    return T5TokenizerFast(vocab=vocabulary, extra_ids=0, model_max_length=512)


WAN_COMPONENTS = {
    "transformer": ("WanTransformer3DModel", "diffusers"),
    "vae": ("AutoencoderKLWan", "diffusers"),
    "text_encoder": ("T5EncoderModel", "transformers"),
}


def save_wan(folder: Path) -> Path:
    """Saves a Wan pipeline: two blocks, four heads of 12, for videos of nine frames."""
    tokenizer = _t5_tokenizer()
    text_encoder = T5EncoderModel(
        T5Config(
            vocab_size=len(tokenizer), d_model=WIDTH, d_kv=16, d_ff=2 * WIDTH, num_layers=1, num_heads=4, dropout_rate=0
        )
    )
    vae = AutoencoderKLWan(
        base_dim=3, z_dim=16, dim_mult=[1, 1, 1, 1], num_res_blocks=1, temperal_downsample=[False, True, True]
    )
    transformer = WanTransformer3DModel(
        patch_size=(1, 2, 2),
        num_attention_heads=4,
        attention_head_dim=12,
        in_channels=16,
        out_channels=16,
        text_dim=WIDTH,
        freq_dim=256,
        ffn_dim=32,
        num_layers=2,
        cross_attn_norm=True,
        qk_norm="rms_norm_across_heads",
        rope_max_seq_len=32,
    )
    for seed, module in enumerate((text_encoder, transformer, vae)):
        randomise(module, seed)
    scheduler = FlowMatchEulerDiscreteScheduler(shift=7.0)
    pipeline = WanPipeline(
        tokenizer=tokenizer, text_encoder=text_encoder, vae=vae, scheduler=scheduler, transformer=transformer
    )
    pipeline.save_pretrained(folder)
    return folder


def save_lora(folder: Path, model: Path) -> Path:
    """Saves a LoRA for the tiny Flux that changes its pictures."""
    from peft import LoraConfig
    from peft.utils import get_peft_model_state_dict

    transformer = FluxTransformer2DModel.from_pretrained(model / "transformer")
    transformer.add_adapter(LoraConfig(r=2, lora_alpha=2, target_modules=["to_q", "to_k", "to_out.0", "proj_mlp"]))
    generator = torch.Generator().manual_seed(9)
    for name, parameter in transformer.named_parameters():
        if "lora_" in name:
            parameter.data = torch.randn(parameter.shape, generator=generator) * 0.3
    FluxPipeline.save_lora_weights(folder, transformer_lora_layers=get_peft_model_state_dict(transformer))
    return folder
