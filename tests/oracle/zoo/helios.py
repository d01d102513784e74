"""Helios: the 40 blocks that its plan names, four heads of 12; a clip in chunks that see what was made before."""

from __future__ import annotations

from pathlib import Path

from diffusers import HeliosPipeline, HeliosScheduler, HeliosTransformer3DModel

from .family import RING, ULYSSES, UNEVEN_RING, Family, offloaded
from .parts import WIDTH, randomise, soften, t5_tokenizer, umt5_encoder, wan_autoencoder


def save(folder: Path) -> Path:
    """Saves the pipeline."""
    tokenizer = t5_tokenizer()
    text_encoder, vae = umt5_encoder(tokenizer), wan_autoencoder()
    transformer = HeliosTransformer3DModel(
        num_attention_heads=4,
        attention_head_dim=12,
        text_dim=WIDTH,
        freq_dim=64,
        ffn_dim=32,
        num_layers=40,
        rope_dim=(4, 4, 4),
    )
    for seed, module in enumerate((text_encoder, transformer, vae)):
        randomise(module, seed)
    soften(vae, 0.5)
    scheduler = HeliosScheduler(
        stages=1,
        stage_range=[0, 1],
        prediction_type="flow_prediction",
        scheduler_type="unipc",
        use_dynamic_shifting=True,
        time_shift_type="exponential",
    )
    pipeline = HeliosPipeline(
        tokenizer=tokenizer, text_encoder=text_encoder, vae=vae, scheduler=scheduler, transformer=transformer
    )
    pipeline.save_pretrained(folder)
    return folder


HELIOS = Family(
    name="helios",
    save=save,
    parts=("text_encoder", "vae"),
    sizes=((64, 64), (48, 32), (48, 48), (64, 32), (40, 32)),
    frames=(10, 9, 5, 14, 1),
    text_lengths=(8, 12, 7, 16),
    guidance=({}, {"guidance": 1.0}, {"true_cfg": 3.0}, {"true_cfg": 2.0, "negative_prompt": "green tree"}),
    lora_targets=("to_q", "to_k", "to_out.0"),
    args={"num_latent_frames_per_chunk": 3},
    strategies=("data", "context", "context", "map"),
    arguments=({"keep_first_frame": False}, {"num_latent_frames_per_chunk": 2}, {"history_sizes": [8, 2, 1]}),
    noise=None,
    plans=(
        *(ULYSSES, RING, UNEVEN_RING),
        {"device_map": {"transformer": [1, 0], "text_encoder": 1, "vae": 2}},
        offloaded("transformer", "vae"),
    ),
)
