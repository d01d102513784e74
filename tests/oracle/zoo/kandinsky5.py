"""Kandinsky 5 for pictures: one text block and two of pictures, two heads of 16; Qwen2.5-VL and CLIP.

Its pictures have seven sizes of about 1024 pixels squared, whatever is asked for.
"""

from __future__ import annotations

from pathlib import Path

from diffusers import FlowMatchEulerDiscreteScheduler, Kandinsky5T2IPipeline, Kandinsky5Transformer3DModel

from .family import Family
from .parts import WIDTH, autoencoder, clip_encoder, clip_tokenizer, qwen_tokenizer, randomise, soften
from .qwen_image import WIDTH as QWEN_WIDTH
from .qwen_image import qwen_encoder


def save(folder: Path) -> Path:
    """Saves the pipeline."""
    # The published one has a processor of texts and pictures for its tokenizer, which wants torchvision.
    tokenizer, clip = qwen_tokenizer(), clip_tokenizer(model_max_length=77)
    transformer = Kandinsky5Transformer3DModel(
        in_visual_dim=4,
        out_visual_dim=4,
        in_text_dim=QWEN_WIDTH,
        in_text_dim2=WIDTH,
        time_dim=16,
        model_dim=32,
        ff_dim=64,
        num_text_blocks=1,
        num_visual_blocks=2,
        axes_dims=(4, 6, 6),
    )
    text_encoder = qwen_encoder(len(tokenizer))
    # Eight pixels on the side of a latent, as the pipeline has it for every autoencoder.
    text_encoder_2, vae = clip_encoder(clip, positions=77), autoencoder(levels=4, shift_factor=None)
    for seed, module in enumerate((text_encoder, text_encoder_2, transformer, vae)):
        randomise(module, seed)
    soften(vae)
    # Gates far from 1 would make much of what another order of sums leaves.
    for name, parameter in transformer.named_parameters():
        if "modulation" in name:
            parameter.data *= 0.02
    pipeline = Kandinsky5T2IPipeline(
        transformer=transformer,
        vae=vae,
        text_encoder=text_encoder,
        tokenizer=tokenizer,
        text_encoder_2=text_encoder_2,
        tokenizer_2=clip,
        scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0),
    )
    pipeline.save_pretrained(folder)
    return folder


KANDINSKY5 = Family(
    name="kandinsky5",
    save=save,
    parts=("text_encoder", "text_encoder_2", "vae"),
    sizes=((1408, 640), (640, 1408), (512, 1000)),
    text_lengths=(64, 512),
    schedulers=(
        {"class": "FlowMatchEulerDiscreteScheduler", "stochastic_sampling": True},
        {"class": "FlowMatchHeunDiscreteScheduler"},
    ),
    guidance=({}, {"guidance": 1.0}, {"true_cfg": 3.0}, {"true_cfg": 2.0, "negative_prompt": "green tree"}),
    lora_targets=("to_query", "to_key"),
    text_length=64,
    pads_without_mask=True,
    plans=({"device_map": {"transformer": [1, 0], "vae": 1}}, {"components": {"text_encoder": {"tensor": 2}}}),
    is_heavy=True,
)
