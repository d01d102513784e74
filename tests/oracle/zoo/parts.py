"""What the tiny pipelines share: random values, tokenizers trained here, and small encoders and autoencoders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import AutoencoderKL, AutoencoderKLWan
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from torch import nn
from transformers import (
    CLIPImageProcessor,
    CLIPTextConfig,
    CLIPTextModel,
    CLIPTextModelWithProjection,
    CLIPTokenizer,
    CLIPVisionConfig,
    CLIPVisionModel,
    CLIPVisionModelWithProjection,
    Gemma2Config,
    Gemma2Model,
    GemmaTokenizer,
    PreTrainedTokenizerFast,
    Qwen2Tokenizer,
    Qwen3Config,
    T5Config,
    T5EncoderModel,
    T5TokenizerFast,
    UMT5Config,
    UMT5EncoderModel,
)

WIDTH = 64
SEEN = 32
"""Width of the encoder of pictures."""
PICTURE, SQUARE, LARGE, TURNED = "panda.png", "square.png", "large.webp", "turned.jpg"
WORDS = ["red", "apple", "panda", "face", "slice", "of", "pizza", "green", "tree"]
PROMPTS = ["red apple", "panda face", "slice of pizza", "green tree", "red face"]


def randomise(module: nn.Module, seed: int) -> None:
    """Gives every parameter a value of its own, norms and biases too, so that no layout mistake can hide."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in module.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        one_dimensional = parameter.dim() < 2
        centre = 1.0 if one_dimensional and "norm" in name and "bias" not in name else 0.0
        parameter.data = centre + noise * (0.1 if one_dimensional else max(1, parameter[0].numel()) ** -0.5)


def draw(root: Path) -> None:
    """Writes the input pictures, one of which lies on its side."""
    pixels = np.random.default_rng(1).integers(0, 255, (9, 12, 3), dtype=np.uint8)
    picture = Image.fromarray(pixels).resize((48, 40), Image.Resampling.BICUBIC)
    picture.save(root / PICTURE)
    picture.resize((64, 64)).save(root / SQUARE)
    picture.resize((80, 72)).save(root / LARGE, lossless=True)
    exif = picture.getexif()
    exif[0x0112] = 6
    picture.resize((64, 96)).save(root / TURNED, exif=exif, quality=95)


def clip_tokenizer(model_max_length: int = 16) -> CLIPTokenizer:
    """A CLIP tokenizer that knows `WORDS`."""
    tokenizer = Tokenizer(models.BPE(unk_token="<|endoftext|>", end_of_word_suffix="</w>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.BpeTrainer(
        vocab_size=200, special_tokens=["<|startoftext|>", "<|endoftext|>"], end_of_word_suffix="</w>"
    )
    tokenizer.train_from_iterator([*WORDS, *"abcdefghijklmnopqrstuvwxyz"], trainer)
    content = json.loads(tokenizer.to_str())["model"]
    return CLIPTokenizer(
        vocab=content["vocab"],
        merges=[tuple(merge) for merge in content["merges"]],
        model_max_length=model_max_length,
    )


def t5_tokenizer() -> T5TokenizerFast:
    """A T5 tokenizer that knows `WORDS` and letters."""
    vocabulary = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -10.0)]
    vocabulary += [(f"▁{word}", -2.0) for word in WORDS] + [(letter, -10.0) for letter in "abcdefghijklmnopqrstuvwxyz"]
    return T5TokenizerFast(vocab=vocabulary, extra_ids=0, model_max_length=512)


TEMPLATE = (
    "<|im_start|>system\nDescribe the image by detailing the color, shape, size, texture, quantity, text, spatial "
    "relationships of the objects and background:<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
)
"""Qwen-Image's prompt (diffusers 0.42.1, `pipeline_qwenimage.py`); its first 34 tokens are cut off again."""


def _byte_level(special: list[str], *texts: str) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=800, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator([TEMPLATE, *texts, *(f" {word}" for word in WORDS), *WORDS] * 2, trainer)
    return tokenizer


def qwen_tokenizer() -> Qwen2Tokenizer:
    """A Qwen tokenizer for which every word of the template is one token."""
    content = json.loads(_byte_level(["<|endoftext|>", "<|im_start|>", "<|im_end|>"]).to_str())["model"]
    tokenizer = Qwen2Tokenizer(vocab=content["vocab"], merges=[tuple(merge) for merge in content["merges"]])
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    return tokenizer


def qwen3_config(vocabulary: int, width: int) -> Qwen3Config:
    """Of a Qwen3 of three layers and four heads that share two of keys."""
    return Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
    )


def byte_tokenizer(*texts: str) -> PreTrainedTokenizerFast:
    """A byte-level tokenizer without a model's own class; the words of the texts are tokens of it."""
    tokenizer = _byte_level(["<unk>", "<pad>"], *texts)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", pad_token="<pad>")


def gemma_tokenizer() -> GemmaTokenizer:
    """A Gemma tokenizer that knows `WORDS` and letters."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"])
    tokenizer.train_from_iterator([*WORDS, *(f"▁{word}" for word in WORDS), *"abcdefghijklmnopqrstuvwxyz"], trainer)
    content = json.loads(tokenizer.to_str())["model"]
    return GemmaTokenizer(vocab=content["vocab"], merges=[tuple(merge) for merge in content["merges"]])


def gemma_encoder(tokenizer: GemmaTokenizer, width: int) -> Gemma2Model:
    """A Gemma 2 of three layers and four heads that share two of keys; its second layer looks at a window."""
    return Gemma2Model(
        Gemma2Config(
            vocab_size=len(tokenizer),
            hidden_size=width,
            intermediate_size=2 * width,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=8,
            query_pre_attn_scalar=8,
            sliding_window=16,
            max_position_embeddings=1024,
        )
    )


def clip_encoder(tokenizer: CLIPTokenizer, *, projected: bool = False, positions: int = 16) -> Any:
    """A CLIP text encoder of two layers and four heads."""
    config = CLIPTextConfig(
        vocab_size=len(tokenizer),
        hidden_size=WIDTH,
        intermediate_size=2 * WIDTH,
        projection_dim=WIDTH,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=positions,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return (CLIPTextModelWithProjection if projected else CLIPTextModel)(config)


def vision_encoder(*, projected: bool = False) -> Any:
    """A CLIP encoder of pictures, of two layers and four heads, which makes five tokens."""
    config = CLIPVisionConfig(
        hidden_size=SEEN,
        intermediate_size=2 * SEEN,
        projection_dim=SEEN,
        num_hidden_layers=2,
        num_attention_heads=4,
        image_size=16,
        patch_size=8,
    )
    return (CLIPVisionModelWithProjection if projected else CLIPVisionModel)(config)


def vision_processor() -> CLIPImageProcessor:
    """What makes a picture fit for `vision_encoder`."""
    return CLIPImageProcessor(size={"shortest_edge": 16}, crop_size={"height": 16, "width": 16})


def t5_encoder(tokenizer: T5TokenizerFast, layers: int = 2, width: int = WIDTH) -> T5EncoderModel:
    """A T5 encoder of four heads."""
    return T5EncoderModel(T5Config(**_t5_settings(tokenizer, layers, width)))


def umt5_encoder(tokenizer: T5TokenizerFast, layers: int = 2) -> UMT5EncoderModel:
    """A UMT5 encoder of four heads: positions of its own in every layer."""
    return UMT5EncoderModel(UMT5Config(**_t5_settings(tokenizer, layers, WIDTH)))


def _t5_settings(tokenizer: T5TokenizerFast, layers: int, width: int) -> dict[str, Any]:
    return {
        "vocab_size": len(tokenizer),
        "d_model": width,
        "d_kv": 16,
        "d_ff": 2 * width,
        "num_layers": layers,
        "num_heads": 4,
        "feed_forward_proj": "gated-gelu",
        "dropout_rate": 0.0,
    }


def autoencoder(latent_channels: int = 4, levels: int = 2, **settings: Any) -> AutoencoderKL:
    """An autoencoder of pictures: 2 ** (levels - 1) pixels on the side of a latent."""
    own = {
        "mid_block_add_attention": False,
        "use_quant_conv": False,
        "use_post_quant_conv": False,
        "shift_factor": 0.1,
        "scaling_factor": 0.6,
        "force_upcast": False,
        **settings,
    }
    return AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * levels,
        up_block_types=("UpDecoderBlock2D",) * levels,
        block_out_channels=(*(16,) * (levels - 1), 32),
        layers_per_block=1,
        latent_channels=latent_channels,
        norm_num_groups=8,
        sample_size=32,
        **own,
    )


def wan_autoencoder() -> AutoencoderKLWan:
    """An autoencoder of videos: eight pixels on the side of a latent, four frames."""
    return AutoencoderKLWan(
        base_dim=8, z_dim=16, dim_mult=[1, 1, 1, 1], num_res_blocks=1, temperal_downsample=[False, True, True]
    )


def soften(vae: nn.Module, factor: float = 0.2) -> None:
    """Keeps pixels off the ends of their range, where differences would vanish."""
    last = vae.get_submodule("decoder.conv_out")
    getattr(last, "conv", last).weight.data *= factor
