"""Kandinsky 5 for videos: two blocks, heads of 16; a Qwen2.5-VL that reads a long template, and CLIP."""

from __future__ import annotations

from pathlib import Path

from diffusers import FlowMatchEulerDiscreteScheduler, Kandinsky5T2VPipeline, Kandinsky5Transformer3DModel

from .family import Family, offloaded
from .hunyuan_video import autoencoder
from .parts import WIDTH, clip_encoder, clip_tokenizer, qwen_tokenizer, randomise, soften
from .qwen_image import WIDTH as TEXT_WIDTH
from .qwen_image import qwen_encoder


def save(folder: Path) -> Path:
    """Saves the pipeline. Its tokenizer stands for Qwen's processor, of which only the text is used."""
    tokenizer, clip = qwen_tokenizer(), clip_tokenizer()
    transformer = Kandinsky5Transformer3DModel(
        in_visual_dim=4,
        out_visual_dim=4,
        in_text_dim=TEXT_WIDTH,
        in_text_dim2=WIDTH,
        time_dim=16,
        model_dim=32,
        ff_dim=64,
        num_text_blocks=2,
        num_visual_blocks=2,
        axes_dims=(4, 6, 6),
        visual_cond=True,
    )
    # The pipeline fills its second text to 77 tokens, whatever the tokenizer says.
    text_encoder, text_encoder_2, vae = qwen_encoder(len(tokenizer)), clip_encoder(clip, positions=77), autoencoder()
    for seed, module in enumerate((text_encoder, text_encoder_2, transformer, vae)):
        randomise(module, seed)
    soften(vae)
    pipeline = Kandinsky5T2VPipeline(
        transformer=transformer,
        vae=vae,
        text_encoder=text_encoder,
        tokenizer=tokenizer,
        text_encoder_2=text_encoder_2,
        tokenizer_2=clip,
        scheduler=FlowMatchEulerDiscreteScheduler(shift=5.0),
    )
    pipeline.save_pretrained(folder)
    return folder


KANDINSKY5_VIDEO = Family(
    name="kandinsky5-video",
    pads_without_mask=True,
    save=save,
    parts=("text_encoder", "text_encoder_2", "vae"),
    sizes=((32, 32), (48, 32), (48, 48), (80, 32), (40, 32)),
    frames=(5, 9, 1, 6),
    text_lengths=(256, 300, 200),
    schedulers=({"class": "FlowMatchEulerDiscreteScheduler", "stochastic_sampling": True}, {"shift": 3.0}),
    guidance=({}, {"guidance": 1.0}, {"true_cfg": 3.0}, {"true_cfg": 2.0, "negative_prompt": "green tree"}),
    lora_targets=("to_query", "to_key", "self_attention.out_layer"),
    text_length=256,
    plans=(
        {"data": 2},
        {"components": {"text_encoder": {"tensor": 2}}},
        {"device_map": {"transformer": [1, 0], "text_encoder": 1, "vae": 2}},
        offloaded("transformer", "text_encoder", "vae"),
    ),
)
