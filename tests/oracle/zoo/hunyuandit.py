"""HunyuanDiT: four blocks with long skips, four heads of 16; BERT and T5, noise at each step, no adapters."""

from __future__ import annotations

from pathlib import Path

from diffusers import DDPMScheduler, HunyuanDiT2DModel, HunyuanDiTPipeline
from transformers import BertConfig, BertModel, BertTokenizer

from .family import Family
from .parts import WIDTH, WORDS, autoencoder, randomise, soften, t5_encoder, t5_tokenizer

BERT_WIDTH = 32


def save(folder: Path) -> Path:
    """Saves the pipeline."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *letters, *(f"##{letter}" for letter in letters)]
    bert, t5 = BertTokenizer(vocab={word: number for number, word in enumerate(words)}), t5_tokenizer()
    text_encoder = BertModel(
        BertConfig(
            vocab_size=len(words),
            hidden_size=BERT_WIDTH,
            intermediate_size=2 * BERT_WIDTH,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=80,
        )
    )
    transformer = HunyuanDiT2DModel(
        num_attention_heads=4,
        attention_head_dim=16,
        in_channels=4,
        patch_size=2,
        sample_size=8,
        hidden_size=64,
        num_layers=4,
        cross_attention_dim=BERT_WIDTH,
        cross_attention_dim_t5=WIDTH,
        pooled_projection_dim=16,
    )
    # Eight pixels on the side of a latent, as the pipeline's positions have it for every autoencoder.
    text_encoder_2, vae = t5_encoder(t5), autoencoder(levels=4, mid_block_add_attention=True, shift_factor=None)
    for seed, module in enumerate((text_encoder, text_encoder_2, transformer, vae)):
        randomise(module, seed)
    soften(vae)
    pipeline = HunyuanDiTPipeline(
        vae=vae,
        text_encoder=text_encoder,
        tokenizer=bert,
        transformer=transformer,
        # Little noise, so that latents stay small and an absolute difference means the same as in other families.
        scheduler=DDPMScheduler(beta_end=0.002, prediction_type="v_prediction", clip_sample=False, steps_offset=1),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
        text_encoder_2=text_encoder_2,
        tokenizer_2=t5,
    )
    pipeline.save_pretrained(folder)
    return folder


HUNYUANDIT = Family(
    name="hunyuandit",
    save=save,
    parts=("text_encoder", "text_encoder_2", "vae"),
    sizes=((64, 64), (64, 96), (80, 48), (96, 96), (72, 64), (60, 64)),
    # Pictures of the asked size, not of the nearest of its own.
    args={"use_resolution_binning": False},
    schedulers=(
        {"class": "DDIMScheduler"},
        {"class": "EulerAncestralDiscreteScheduler"},
        {"class": "DPMSolverMultistepScheduler"},
        {"class": "PNDMScheduler"},
    ),
    guidance=({}, {"guidance": 1.0}, {"true_cfg": 3.0}, {"true_cfg": 2.0, "negative_prompt": "green tree"}),
    lora_targets=(),
    kept=("text_encoder_2",),
    noise=None,
    arguments=(
        {"guidance_rescale": 0.7},
        {"eta": 0.5},
        {"original_size": [64, 96]},
        {"target_size": [64, 96]},
        {"crops_coords_top_left": [4, 8]},
    ),
)
