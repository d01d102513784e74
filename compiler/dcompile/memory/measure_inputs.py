"""What a pipeline passes to its denoiser, by class: shapes alone, for `memory/measure.py`. Imports torch.

Read from the pipelines of diffusers 0.42.1 (`pipelines/<family>/`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

Inputs = dict[str, Any]


@dataclass(frozen=True)
class Shape:
    """One call. `rows` and `columns` count tokens of a latent frame, `text` tokens of a prompt, `history` those of what
    was made before."""

    batch: int
    rows: int
    columns: int
    text: int
    frames: int = 1
    history: int = 0

    @property
    def image(self) -> int:
        """Image or video tokens of one sample."""
        return self.frames * self.rows * self.columns + self.history


def denoiser_inputs(class_name: str, config: dict[str, Any], shape: Shape, dtype: torch.dtype) -> Inputs:
    """Arguments of the class's `forward`.

    Raises:
        KeyError: for a class whose inputs are not known.
    """
    return _INPUTS[class_name](config, shape, dtype)


def _packed(config: Any, shape: Shape, dtype: torch.dtype) -> Inputs:
    """Tokens that the pipeline has packed already."""
    return {
        "hidden_states": torch.empty(shape.batch, shape.image, config["in_channels"], dtype=dtype),
        "encoder_hidden_states": torch.empty(shape.batch, shape.text, config["joint_attention_dim"], dtype=dtype),
        "timestep": torch.empty(shape.batch, dtype=dtype),
    }


def _flux(config: Any, shape: Shape, dtype: torch.dtype) -> Inputs:
    inputs = _packed(config, shape, dtype)
    if "pooled_projection_dim" in config:
        inputs["pooled_projections"] = torch.empty(shape.batch, config["pooled_projection_dim"], dtype=dtype)
    if config.get("guidance_embeds"):
        inputs["guidance"] = torch.empty(shape.batch, dtype=torch.float32)
    axes = len(config.get("axes_dims_rope", (16, 56, 56)))
    return inputs | {
        "img_ids": torch.empty(shape.image, axes, dtype=dtype),
        "txt_ids": torch.empty(shape.text, axes, dtype=dtype),
    }


def _flux2(config: Any, shape: Shape, dtype: torch.dtype) -> Inputs:
    """Positions for each sample, which is how context parallelism splits them."""
    inputs = _flux(config, shape, dtype)
    return inputs | {name: inputs[name].expand(shape.batch, -1, -1) for name in ("img_ids", "txt_ids")}


def _chroma(config: Any, shape: Shape, dtype: torch.dtype) -> Inputs:
    mask = torch.empty(shape.batch, shape.text + shape.image, dtype=dtype)
    return _flux(config, shape, dtype) | {"attention_mask": mask}


def _qwen(config: Any, shape: Shape, dtype: torch.dtype) -> Inputs:
    return _packed(config, shape, dtype) | {"img_shapes": [[(shape.frames, shape.rows, shape.columns)]] * shape.batch}


def _qwen21(config: Any, shape: Shape, dtype: torch.dtype) -> Inputs:
    """The whole sequence, as the first step sees it. Which of it is the picture decides shapes, so that has contents:
    the last slots, each of which stands for four tokens."""
    slots = torch.zeros(shape.batch, shape.text + shape.image // 4, dtype=torch.bool, device="cpu")
    slots[:, shape.text :] = True
    return {
        "hidden_states": torch.empty(shape.batch, shape.image, config["in_channels"], dtype=dtype),
        "encoder_hidden_states": torch.empty(shape.batch, shape.text, config["context_in_dim"], dtype=dtype),
        "timestep": torch.empty(shape.batch, dtype=dtype),
        "img_shapes": [[(shape.frames, shape.rows, shape.columns)]] * shape.batch,
        "img_mask": slots,
    }


def _latents(config: Any, shape: Shape, dtype: torch.dtype, channels: str = "in_channels") -> torch.Tensor:
    """Latents with their patches still in place; five dims for a video."""
    patch = config.get("patch_size", 2)
    patch = patch[-1] if isinstance(patch, (list, tuple)) else patch
    sides = shape.rows * patch, shape.columns * patch
    return torch.empty(shape.batch, config[channels], shape.frames, *sides, dtype=dtype)


def _wan(config: Any, shape: Shape, dtype: torch.dtype) -> Inputs:
    inputs = {
        "hidden_states": _latents(config, shape, dtype),
        "encoder_hidden_states": torch.empty(shape.batch, shape.text, config["text_dim"], dtype=dtype),
        "timestep": torch.empty(shape.batch, dtype=torch.int64),
    }
    if config.get("image_dim"):
        inputs["encoder_hidden_states_image"] = torch.empty(shape.batch, 257, config["image_dim"], dtype=dtype)
    return inputs


def _wan_vace(config: Any, shape: Shape, dtype: torch.dtype) -> Inputs:
    return _wan(config, shape, dtype) | {
        "control_hidden_states": _latents(config, shape, dtype, "vace_in_channels"),
        "control_hidden_states_scale": torch.ones(len(config["vace_layers"]), dtype=dtype),
    }


def _wan_animate(config: Any, shape: Shape, dtype: torch.dtype) -> Inputs:
    """`frames` counts the reference frame too; a face picture for every frame of the clip."""
    frames, side = shape.frames - 1, config["motion_encoder_size"]
    pose = Shape(shape.batch, shape.rows, shape.columns, shape.text, frames)
    return _wan(config, shape, dtype) | {
        "pose_hidden_states": _latents(config, pose, dtype, "latent_channels"),
        "face_pixel_values": torch.empty(shape.batch, 3, (frames - 1) * 4 + 1, side, side, dtype=dtype),
    }


def _helios(config: Any, shape: Shape, dtype: torch.dtype) -> Inputs:
    """A chunk and the history before it, with the defaults of the pipeline: 16 latent frames of long ago, 2 of a while
    ago, the last one and the first of all."""
    inputs: Inputs = _wan(config, shape, dtype)
    for name, frames in (("short", 2), ("mid", 2), ("long", 16)):
        latents = _latents(config, replace(shape, frames=frames), dtype)
        inputs |= {
            f"latents_history_{name}": latents,
            f"indices_latents_history_{name}": torch.empty(1, frames, dtype=torch.int64),
        }
    return inputs | {"indices_hidden_states": torch.empty(1, shape.frames, dtype=torch.int64)}


def _ltx(config: Any, shape: Shape, dtype: torch.dtype) -> Inputs:
    return {
        "hidden_states": torch.empty(shape.batch, shape.image, config["in_channels"], dtype=dtype),
        "encoder_hidden_states": torch.empty(shape.batch, shape.text, config["caption_channels"], dtype=dtype),
        "timestep": torch.empty(shape.batch, dtype=torch.float32),
        "encoder_attention_mask": torch.empty(shape.batch, shape.text, dtype=torch.int64),
        "num_frames": shape.frames,
        "height": shape.rows,
        "width": shape.columns,
        "rope_interpolation_scale": (0.32, 32, 32),
    }


def _ltx2(config: Any, shape: Shape, dtype: torch.dtype) -> Inputs:
    """With the sound of a clip at 24 frames a second, and the positions that the pipeline makes once."""
    seconds = ((shape.frames - 1) * config["vae_scale_factors"][0] + 1) / 24
    rate = config["audio_sampling_rate"] / config["audio_hop_length"] / config["audio_scale_factor"]
    audio = round(seconds * rate)
    sound = torch.empty(shape.batch, audio, config["audio_in_channels"], dtype=dtype)
    text = torch.empty(shape.batch, shape.text, config["caption_channels"], dtype=dtype)
    return {
        "hidden_states": torch.empty(shape.batch, shape.image, config["in_channels"], dtype=dtype),
        "audio_hidden_states": sound,
        "encoder_hidden_states": text,
        "audio_encoder_hidden_states": torch.empty_like(text),
        "timestep": torch.empty(shape.batch, dtype=torch.float32),
        "sigma": torch.empty(shape.batch, dtype=torch.float32),
        "encoder_attention_mask": torch.empty(shape.batch, shape.text, dtype=torch.int64),
        "audio_encoder_attention_mask": torch.empty(shape.batch, shape.text, dtype=torch.int64),
        "num_frames": shape.frames,
        "height": shape.rows,
        "width": shape.columns,
        "audio_num_frames": audio,
        "video_coords": torch.empty(shape.batch, 3, shape.image, 2, dtype=torch.float32),
        "audio_coords": torch.empty(shape.batch, 1, audio, 2, dtype=torch.float32),
        "use_cross_timestep": True,
    }


def _sd3(config: Any, shape: Shape, dtype: torch.dtype) -> Inputs:
    return {
        "hidden_states": _latents(config, shape, dtype)[:, :, 0],
        "encoder_hidden_states": torch.empty(shape.batch, shape.text, config["joint_attention_dim"], dtype=dtype),
        "pooled_projections": torch.empty(shape.batch, config["pooled_projection_dim"], dtype=dtype),
        "timestep": torch.empty(shape.batch, dtype=torch.float32),
    }


def _captioned(config: Any, shape: Shape, dtype: torch.dtype) -> Inputs:
    """PixArt and Sana: cross-attention to a masked caption."""
    return {
        "hidden_states": _latents(config, shape, dtype)[:, :, 0],
        "encoder_hidden_states": torch.empty(shape.batch, shape.text, config["caption_channels"], dtype=dtype),
        "encoder_attention_mask": torch.empty(shape.batch, shape.text, dtype=torch.int64),
        "timestep": torch.empty(shape.batch, dtype=torch.float32),
    }


def _pixart(config: Any, shape: Shape, dtype: torch.dtype) -> Inputs:
    return _captioned(config, shape, dtype) | {"added_cond_kwargs": {"resolution": None, "aspect_ratio": None}}


def _hunyuan_dit(config: Any, shape: Shape, dtype: torch.dtype) -> Inputs:
    head, text, text_t5 = config["attention_head_dim"], config["text_len"], config["text_len_t5"]
    return {
        "hidden_states": _latents(config, shape, dtype)[:, :, 0],
        "timestep": torch.empty(shape.batch, dtype=dtype),
        "encoder_hidden_states": torch.empty(shape.batch, text, config["cross_attention_dim"], dtype=dtype),
        "text_embedding_mask": torch.empty(shape.batch, text, dtype=torch.int64),
        "encoder_hidden_states_t5": torch.empty(shape.batch, text_t5, config["cross_attention_dim_t5"], dtype=dtype),
        "text_embedding_mask_t5": torch.empty(shape.batch, text_t5, dtype=torch.int64),
        "image_meta_size": torch.empty(shape.batch, 6, dtype=dtype),
        "style": torch.empty(shape.batch, dtype=torch.int64),
        "image_rotary_emb": [torch.empty(shape.image, head) for _ in range(2)],
    }


def _aura_flow(config: Any, shape: Shape, dtype: torch.dtype) -> Inputs:
    return {
        "hidden_states": _latents(config, shape, dtype)[:, :, 0],
        "encoder_hidden_states": torch.empty(shape.batch, shape.text, config["joint_attention_dim"], dtype=dtype),
        "timestep": torch.empty(shape.batch, dtype=dtype),
    }


def _cogview4(config: Any, shape: Shape, dtype: torch.dtype) -> Inputs:
    return {
        "hidden_states": _latents(config, shape, dtype)[:, :, 0],
        "encoder_hidden_states": torch.empty(shape.batch, shape.text, config["text_embed_dim"], dtype=dtype),
        "timestep": torch.empty(shape.batch, dtype=dtype),
        **{name: torch.empty(shape.batch, 2, dtype=dtype) for name in ("original_size", "target_size", "crop_coords")},
    }


def _hidream(config: Any, shape: Shape, dtype: torch.dtype) -> Inputs:
    """Texts of T5 and of every block of Llama, each `text` tokens long."""
    width_t5, width_llama = config["caption_channels"]
    blocks = max(config["llama_layers"]) + 1
    return {
        "hidden_states": _latents(config, shape, dtype)[:, :, 0],
        "timesteps": torch.empty(shape.batch, dtype=torch.float32),
        "encoder_hidden_states_t5": torch.empty(shape.batch, shape.text, width_t5, dtype=dtype),
        "encoder_hidden_states_llama3": torch.empty(blocks, shape.batch, shape.text, width_llama, dtype=dtype),
        "pooled_embeds": torch.empty(shape.batch, config["text_emb_dim"], dtype=dtype),
    }


def _kandinsky5(config: Any, shape: Shape, dtype: torch.dtype) -> Inputs:
    """Latents with their channels last, beside which lie those of a picture and a mask where it may be given one."""
    channels = config["in_visual_dim"] * (2 if config["visual_cond"] else 1) + bool(config["visual_cond"])
    sides = shape.rows * config["patch_size"][1], shape.columns * config["patch_size"][2]
    return {
        "hidden_states": torch.empty(shape.batch, shape.frames, *sides, channels, dtype=dtype),
        "encoder_hidden_states": torch.empty(shape.batch, shape.text, config["in_text_dim"], dtype=dtype),
        "timestep": torch.empty(shape.batch, dtype=dtype),
        "pooled_projections": torch.empty(shape.batch, config["in_text_dim2"], dtype=dtype),
        "visual_rope_pos": [torch.arange(count) for count in (shape.frames, shape.rows, shape.columns)],
        "text_rope_pos": torch.arange(shape.text),
    }


def _z_image(config: Any, shape: Shape, dtype: torch.dtype) -> Inputs:
    latents = _latents({**config, "patch_size": config["all_patch_size"][0]}, shape, dtype)
    return {
        "x": list(latents.unbind(dim=0)),
        "t": torch.empty(shape.batch, dtype=dtype),
        "cap_feats": [torch.empty(shape.text, config["cap_feat_dim"], dtype=dtype) for _ in range(shape.batch)],
    }


def _lumina2(config: Any, shape: Shape, dtype: torch.dtype) -> Inputs:
    return {
        "hidden_states": _latents(config, shape, dtype)[:, :, 0],
        "timestep": torch.empty(shape.batch, dtype=dtype),
        "encoder_hidden_states": torch.empty(shape.batch, shape.text, config["cap_feat_dim"], dtype=dtype),
        "encoder_attention_mask": torch.ones(shape.batch, shape.text, dtype=torch.bool),
    }


def _unet(config: Any, shape: Shape, dtype: torch.dtype) -> Inputs:
    sample = torch.empty(shape.batch, config["in_channels"], shape.rows, shape.columns, dtype=dtype)
    inputs: Inputs = {
        "sample": sample,
        "timestep": torch.empty((), dtype=torch.int64),
        "encoder_hidden_states": torch.empty(shape.batch, shape.text, config["cross_attention_dim"], dtype=dtype),
    }
    if config.get("addition_embed_type") == "text_time":
        ids = 6 if config["projection_class_embeddings_input_dim"] == 2816 else 5  # the refiner has an aesthetic score
        pooled = config["projection_class_embeddings_input_dim"] - ids * config["addition_time_embed_dim"]
        inputs["added_cond_kwargs"] = {
            "text_embeds": torch.empty(shape.batch, pooled, dtype=dtype),
            "time_ids": torch.empty(shape.batch, ids, dtype=dtype),
        }
    return inputs


def _mochi(config: Any, shape: Shape, dtype: torch.dtype) -> Inputs:
    full = {"in_channels": 12, "patch_size": 2, "text_embed_dim": 4096, **config}
    return {
        "hidden_states": _latents(full, shape, dtype),
        "encoder_hidden_states": torch.empty(shape.batch, shape.text, full["text_embed_dim"], dtype=dtype),
        "timestep": torch.empty(shape.batch, dtype=dtype),
        "encoder_attention_mask": torch.ones(shape.batch, shape.text, dtype=torch.bool),
    }


def _hunyuan_video(config: Any, shape: Shape, dtype: torch.dtype) -> Inputs:
    inputs = {
        "hidden_states": _latents(config, shape, dtype),
        "timestep": torch.empty(shape.batch, dtype=torch.int64),
        "encoder_hidden_states": torch.empty(shape.batch, shape.text, config["text_embed_dim"], dtype=dtype),
        "encoder_attention_mask": torch.ones(shape.batch, shape.text, dtype=torch.int64),
        "pooled_projections": torch.empty(shape.batch, config["pooled_projection_dim"], dtype=dtype),
    }
    if config.get("guidance_embeds"):
        inputs["guidance"] = torch.empty(shape.batch, dtype=dtype)
    return inputs


def _cogvideox(config: Any, shape: Shape, dtype: torch.dtype) -> Inputs:
    latents = _latents(config, shape, dtype)
    inputs: Inputs = {
        "hidden_states": latents.transpose(1, 2).contiguous(),
        "encoder_hidden_states": torch.empty(shape.batch, shape.text, config["text_embed_dim"], dtype=dtype),
        "timestep": torch.empty(shape.batch, dtype=torch.int64),
    }
    if config["use_rotary_positional_embeddings"]:
        head = config["attention_head_dim"]
        inputs["image_rotary_emb"] = tuple(torch.empty(shape.image, head) for _ in range(2))
    return inputs


_INPUTS: dict[str, Callable[[Any, Shape, torch.dtype], Inputs]] = {
    "AuraFlowTransformer2DModel": _aura_flow,
    "ChromaTransformer2DModel": _chroma,
    "ChronoEditTransformer3DModel": _wan,
    "CogVideoXTransformer3DModel": _cogvideox,
    "CogView4Transformer2DModel": _cogview4,
    "Flux2Transformer2DModel": _flux2,
    "FluxTransformer2DModel": _flux,
    "HeliosTransformer3DModel": _helios,
    "HiDreamImageTransformer2DModel": _hidream,
    "HunyuanDiT2DModel": _hunyuan_dit,
    "HunyuanVideoTransformer3DModel": _hunyuan_video,
    "Kandinsky5Transformer3DModel": _kandinsky5,
    "LTX2VideoTransformer3DModel": _ltx2,
    "LTXVideoTransformer3DModel": _ltx,
    "Lumina2Transformer2DModel": _lumina2,
    "MochiTransformer3DModel": _mochi,
    "PixArtTransformer2DModel": _pixart,
    "QwenImage21Transformer2DModel": _qwen21,
    "QwenImageTransformer2DModel": _qwen,
    "SD3Transformer2DModel": _sd3,
    "SanaTransformer2DModel": _captioned,
    "UNet2DConditionModel": _unet,
    "WanAnimateTransformer3DModel": _wan_animate,
    "WanTransformer3DModel": _wan,
    "WanVACETransformer3DModel": _wan_vace,
    "ZImageTransformer2DModel": _z_image,
}
