"""CogVideoX: two blocks, four heads of 16; with rotary positions (5b), and with those of a table (2b)."""

from __future__ import annotations

from pathlib import Path

from diffusers import AutoencoderKLCogVideoX, CogVideoXDDIMScheduler, CogVideoXPipeline, CogVideoXTransformer3DModel

from .family import Family, offloaded
from .parts import WIDTH, randomise, soften, t5_encoder, t5_tokenizer

TEXT = 12


def save(folder: Path, *, is_rotary: bool = True) -> Path:
    """Saves the pipeline."""
    tokenizer = t5_tokenizer()
    text_encoder = t5_encoder(tokenizer)
    transformer = CogVideoXTransformer3DModel(
        num_attention_heads=4,
        attention_head_dim=16,
        in_channels=4,
        out_channels=4,
        time_embed_dim=16,
        text_embed_dim=WIDTH,
        num_layers=2,
        sample_width=4,
        sample_height=4,
        sample_frames=5,
        max_text_seq_length=TEXT,
        use_rotary_positional_embeddings=is_rotary,
    )
    vae = AutoencoderKLCogVideoX(
        block_out_channels=(8, 8, 8, 8),
        latent_channels=4,
        layers_per_block=1,
        norm_num_groups=4,
        sample_height=32,
        sample_width=32,
        scaling_factor=0.7,
    )
    for seed, module in enumerate((text_encoder, transformer, vae)):
        randomise(module, seed)
    soften(vae)
    scheduler = CogVideoXDDIMScheduler(
        prediction_type="v_prediction",
        rescale_betas_zero_snr=True,
        timestep_spacing="trailing",
        clip_sample=False,
        snr_shift_scale=1.0,
    )
    pipeline = CogVideoXPipeline(
        tokenizer=tokenizer, text_encoder=text_encoder, vae=vae, transformer=transformer, scheduler=scheduler
    )
    pipeline.save_pretrained(folder)
    return folder


def save_with_table(folder: Path) -> Path:
    """Saves the pipeline with positions of a table."""
    return save(folder, is_rotary=False)


COGVIDEOX = Family(
    name="cogvideox",
    save=save,
    parts=("text_encoder", "vae"),
    sizes=((32, 32), (48, 32), (48, 48), (80, 32), (40, 32)),
    frames=(5, 9, 1, 6, None),
    text_lengths=(TEXT, 8, 7, 16),
    schedulers=({"class": "CogVideoXDPMScheduler"}, {"class": "DDIMScheduler"}, {"timestep_spacing": "leading"}),
    guidance=({}, {"guidance": 1.0}, {"true_cfg": 3.0}, {"true_cfg": 2.0, "negative_prompt": "green tree"}),
    lora_targets=("to_q", "to_k", "to_out.0"),
    arguments=({"use_dynamic_cfg": True}, {"eta": 0.5}, {"timesteps": [900, 300]}),
    noise={"class": "CogVideoXDPMScheduler"},
    plans=(
        {"data": 2},
        {"device_map": {"transformer": [1, 0], "text_encoder": [0, 1], "vae": [1, 0]}},
        offloaded("transformer", "text_encoder", "vae"),
    ),
)
COGVIDEOX_TABLE = Family(
    name="cogvideox-table",
    save=save_with_table,
    parts=COGVIDEOX.parts,
    sizes=COGVIDEOX.sizes,
    frames=COGVIDEOX.frames,
    text_lengths=COGVIDEOX.text_lengths,
    schedulers=COGVIDEOX.schedulers,
    guidance=COGVIDEOX.guidance,
    lora_targets=COGVIDEOX.lora_targets,
    arguments=COGVIDEOX.arguments,
    noise=COGVIDEOX.noise,
    plans=({"data": 2}, {"device_map": {"transformer": [0, 1]}}),
)
