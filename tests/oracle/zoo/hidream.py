"""HiDream: one double and one single block, four heads of 16, two of four experts a token; two CLIPs, T5 and Llama.

Its pictures have one area, here 64 pixels squared, whatever is asked for.
"""

from __future__ import annotations

from pathlib import Path

from diffusers import FlowMatchEulerDiscreteScheduler, HiDreamImagePipeline, HiDreamImageTransformer2DModel
from transformers import LlamaConfig, LlamaForCausalLM

from .family import Family, offloaded
from .parts import (
    WIDTH,
    autoencoder,
    byte_tokenizer,
    clip_encoder,
    clip_tokenizer,
    randomise,
    soften,
    t5_encoder,
    t5_tokenizer,
)

LLAMA_WIDTH = 32
OTHERS = ("text_encoder", "text_encoder_2", "text_encoder_3", "transformer", "vae")


def save(folder: Path) -> Path:
    """Saves the pipeline."""
    clip, t5, llama = clip_tokenizer(), t5_tokenizer(), byte_tokenizer()
    llama.eos_token = "<pad>"
    text_encoder_4 = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(llama),
            hidden_size=LLAMA_WIDTH,
            intermediate_size=2 * LLAMA_WIDTH,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=256,
        )
    )
    transformer = HiDreamImageTransformer2DModel(
        patch_size=2,
        in_channels=4,
        out_channels=4,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=16,
        num_attention_heads=4,
        caption_channels=[WIDTH, LLAMA_WIDTH],
        text_emb_dim=2 * WIDTH,
        num_routed_experts=4,
        num_activated_experts=2,
        axes_dims_rope=(8, 4, 4),
        max_resolution=(128, 128),
        llama_layers=[0, 2],
    )
    encoders = [clip_encoder(clip, projected=True) for _ in range(2)]
    text_encoder_3, vae = t5_encoder(t5), autoencoder()
    for seed, module in enumerate((*encoders, text_encoder_3, text_encoder_4, transformer, vae)):
        randomise(module, seed)
    soften(vae)
    pipeline = HiDreamImagePipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0),
        vae=vae,
        text_encoder=encoders[0],
        tokenizer=clip,
        text_encoder_2=encoders[1],
        tokenizer_2=clip,
        text_encoder_3=text_encoder_3,
        tokenizer_3=t5,
        text_encoder_4=text_encoder_4,
        tokenizer_4=llama,
        transformer=transformer,
    )
    pipeline.save_pretrained(folder)
    return folder


HIDREAM = Family(
    name="hidream",
    save=save,
    parts=("text_encoder", "text_encoder_2", "text_encoder_3", "text_encoder_4", "vae"),
    sizes=((32, 32), (32, 48), (64, 32)),
    text_lengths=(8, 12, 7, 16),
    schedulers=(
        {"class": "FlowMatchEulerDiscreteScheduler", "stochastic_sampling": True},
        {"class": "FlowMatchEulerDiscreteScheduler", "use_dynamic_shifting": True},
        {"class": "FlowMatchHeunDiscreteScheduler"},
        {"class": "UniPCMultistepScheduler", "use_flow_sigmas": True, "prediction_type": "flow_prediction"},
        {"class": "FlowMatchLCMScheduler"},
    ),
    guidance=({}, {"guidance": 1.0}, {"true_cfg": 3.0}, {"true_cfg": 2.0, "negative_prompt": "green tree"}),
    lora_targets=("to_q", "to_k", "to_out"),
    encoder="text_encoder_4",
    plans=(
        {"data": 2},
        {"device_map": {"transformer": [1, 0], "vae": 1}},
        {"device_map": {**dict.fromkeys(OTHERS, 2), "text_encoder_4": [0, 1]}},
        offloaded(*OTHERS, "text_encoder_4"),
        {"components": {"text_encoder_4": {"tensor": 2}}},
    ),
    is_heavy=True,
    arguments=(
        {"sigmas": [1.0, 0.4]},
        {"prompt_2": "green tree"},
        {"prompt_4": "green tree"},
        {"negative_prompt_3": "face"},
        {"attention_kwargs": {"scale": 0.5}},
    ),
)
