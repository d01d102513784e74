"""ChronoEdit: two blocks, four heads of 12; a picture joins the text and is stacked on the latents."""

from __future__ import annotations

from pathlib import Path

from diffusers import ChronoEditPipeline, ChronoEditTransformer3DModel, UniPCMultistepScheduler

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

HEADS, HEAD = 4, 12


def save(folder: Path) -> Path:
    """Saves the pipeline."""
    tokenizer = t5_tokenizer()
    text_encoder, image_encoder, vae = umt5_encoder(tokenizer), vision_encoder(), wan_autoencoder()
    transformer = ChronoEditTransformer3DModel(
        patch_size=(1, 2, 2),
        num_attention_heads=HEADS,
        attention_head_dim=HEAD,
        in_channels=36,
        out_channels=16,
        text_dim=WIDTH,
        freq_dim=256,
        ffn_dim=32,
        num_layers=2,
        cross_attn_norm=True,
        qk_norm="rms_norm_across_heads",
        image_dim=SEEN,
        added_kv_proj_dim=HEADS * HEAD,
        rope_max_seq_len=32,
        rope_temporal_skip_len=8,
    )
    for seed, module in enumerate((text_encoder, image_encoder, transformer, vae)):
        randomise(module, seed)
    soften(vae, 0.5)
    scheduler = UniPCMultistepScheduler(use_flow_sigmas=True, prediction_type="flow_prediction", flow_shift=5.0)
    pipeline = ChronoEditPipeline(
        tokenizer=tokenizer,
        text_encoder=text_encoder,
        image_encoder=image_encoder,
        image_processor=vision_processor(),
        transformer=transformer,
        vae=vae,
        scheduler=scheduler,
    )
    pipeline.save_pretrained(folder)
    return folder


CHRONOEDIT = Family(
    name="chronoedit",
    save=save,
    parts=("text_encoder", "image_encoder", "vae"),
    sizes=((32, 32), (48, 32), (48, 48), (80, 32), (40, 32)),
    frames=(None, 5, 9, 17, 6),
    text_lengths=(None, None, None, 512, 16),
    schedulers=({"class": "FlowMatchEulerDiscreteScheduler", "stochastic_sampling": True}, {"flow_shift": 3.0}),
    guidance=({}, {"guidance": 1.0}, {"true_cfg": 3.0}, {"true_cfg": 2.0, "negative_prompt": "green tree"}),
    lora_targets=("to_q", "to_k", "to_out.0"),
    strategies=("data", "context", "context", "map"),
    arguments=(
        {"enable_temporal_reasoning": True, "num_temporal_reasoning_steps": 1},
        {"enable_temporal_reasoning": True, "num_temporal_reasoning_steps": 2},
        {"enable_temporal_reasoning": True},
        {"attention_kwargs": {}},
    ),
    noise={"class": "FlowMatchEulerDiscreteScheduler", "stochastic_sampling": True},
    images=(PICTURE,),
    text_length=512,
    plans=(
        *({"data": 2}, ULYSSES, RING, UNIFIED, UNEVEN, UNEVEN_RING),
        {"device_map": {"transformer": [1, 0], "image_encoder": [0, 1], "vae": 2}},
        offloaded("transformer", "image_encoder"),
    ),
)
