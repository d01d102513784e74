"""Trains the quickstart model: a stock ``FluxPipeline`` of 2.5 million parameters that draws 48 emoji by name.

The pictures come from Debian's ``fonts-noto-color-emoji`` (font OFL-1.1, art Apache-2.0)::

    apt-get install fonts-noto-color-emoji
    python recipes/quickstart_model/train.py --out /tmp/quickstart_model

The captions are the lines of ``prompts.txt`` beside this script: Unicode character names in lower case, so the name is
also the key that finds the picture in the font. Everything is seeded and the budget is in steps, so two trainings on
one machine do the same work. The result is described in ``README.md`` and measured by ``evaluate.py``.
"""

import argparse
import copy
import json
import math
import random
import time
import unicodedata
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from diffusers import AutoencoderKL, FlowMatchEulerDiscreteScheduler, FluxPipeline, FluxTransformer2DModel
from PIL import Image, ImageDraw, ImageFont
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from torch import Tensor, nn
from torch.nn import functional
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer, T5Config, T5EncoderModel, T5TokenizerFast

HERE = Path(__file__).resolve().parent
FONT = Path("/usr/share/fonts/truetype/noto/NotoColorEmoji.ttf")
FONT_SIZE = 109  # the only bitmap size in the font; Pillow refuses every other
GLYPH_CANVAS = 160  # pixels, a little more than the largest glyph at that size

PICTURE_SIZE = 32  # pixels; 16x16 latents, 64 image tokens: divides by 2, 4 and 8
COPIES = 16  # augmented copies of each picture
SCALES = (0.9, 1.0)  # of the picture's side; smaller pictures blur the features of the faces
ROTATION = 5.0  # degrees, either way

TEXT_TOKENS = 8  # the longest caption has five; Flux does not mask padding, so training and use must agree
TEXT_WIDTH = 64
CLIP_POSITIONS = 16
T5_LENGTH = 512  # the default max_sequence_length of FluxPipeline
BPE_MERGES = 256  # enough to make every word of the captions one token

LATENT_CHANNELS = 4
HEADS = 4  # tensor and Ulysses degrees of 2 and 4
ROPE_AXES = (8, 12, 12)  # sums to the head width of 32

VAE_BATCH = 32
VAE_RATE = 2e-3
KL_WEIGHT = 1e-3  # keeps the latents near a normal distribution without costing sharpness
BATCH = 48
RATE = 1.5e-3
WARM_UP = 100  # steps
CAPTION_DROP = 0.1  # trains the empty caption that true classifier-free guidance needs
EMA_DECAY = 0.998


def read_captions(path: Path) -> list[str]:
    """Returns the lines of the caption file that are not empty."""
    return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def draw_glyph(name: str, font: ImageFont.FreeTypeFont) -> Image.Image:
    """Draws the emoji with a Unicode name, cropped to its ink, with a transparent background."""
    canvas = Image.new("RGBA", (GLYPH_CANVAS, GLYPH_CANVAS))
    ImageDraw.Draw(canvas).text((8, 8), unicodedata.lookup(name), font=font, embedded_color=True)
    return canvas.crop(canvas.getbbox())


def augment(glyph: Image.Image, rng: random.Random) -> Image.Image:
    """Turns, scales and places a glyph on a white square of ``PICTURE_SIZE``."""
    turned = glyph.rotate(rng.uniform(-ROTATION, ROTATION), resample=Image.Resampling.BICUBIC, expand=True)
    turned = turned.crop(turned.getbbox())
    ratio = PICTURE_SIZE * rng.uniform(*SCALES) / max(turned.size)
    width, height = (max(1, round(side * ratio)) for side in turned.size)
    small = turned.resize((width, height), Image.Resampling.LANCZOS)
    # A narrow glyph stays near the middle: it moves by the margin of its longer side only.
    shift = (PICTURE_SIZE - max(width, height)) / 2
    left = round((PICTURE_SIZE - width) / 2 + rng.uniform(-shift, shift))
    top = round((PICTURE_SIZE - height) / 2 + rng.uniform(-shift, shift))
    picture = Image.new("RGB", (PICTURE_SIZE, PICTURE_SIZE), "white")
    picture.paste(small, (left, top), small)
    return picture


def make_pictures(captions: list[str], font_path: Path, seed: int) -> Tensor:
    """Draws the training pictures.

    Returns:
        Bytes of shape ``[captions, COPIES, PICTURE_SIZE, PICTURE_SIZE, 3]``.
    """
    font = ImageFont.truetype(str(font_path), FONT_SIZE)
    rng = random.Random(seed)
    pictures = []
    for caption in captions:
        glyph = draw_glyph(caption, font)
        pictures.append(np.stack([np.asarray(augment(glyph, rng)) for _ in range(COPIES)]))
    return torch.from_numpy(np.stack(pictures))


def make_clip_tokenizer(captions: list[str]) -> CLIPTokenizer:
    """Trains CLIP's byte-level BPE on the captions; every other text falls back to bytes."""
    trained = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    trained.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    symbols = alphabet + [letter + "</w>" for letter in alphabet]
    trainer = trainers.BpeTrainer(
        vocab_size=len(symbols) + BPE_MERGES, end_of_word_suffix="</w>", initial_alphabet=alphabet, show_progress=False
    )
    trained.train_from_iterator(captions, trainer)
    merges = [tuple(merge) for merge in json.loads(trained.to_str())["model"]["merges"]]
    words = symbols + ["".join(merge) for merge in merges] + ["<|startoftext|>", "<|endoftext|>"]
    vocab = {word: index for index, word in enumerate(dict.fromkeys(words))}
    return CLIPTokenizer(vocab=vocab, merges=merges, model_max_length=CLIP_POSITIONS)


def make_t5_tokenizer(captions: list[str]) -> T5TokenizerFast:
    """Makes a unigram tokenizer of whole words; letters, at a lower score, are the fallback."""
    words = sorted({word for caption in captions for word in caption.split()})
    letters = "abcdefghijklmnopqrstuvwxyz"
    vocab = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -10.0)]
    vocab += [("▁" + word, -2.0) for word in words] + [(letter, -10.0) for letter in letters]
    return T5TokenizerFast(vocab=vocab, extra_ids=0, model_max_length=T5_LENGTH)


def make_vae() -> AutoencoderKL:
    """Builds the VAE, which halves each side once; halving twice costs 10 dB at this size."""
    return AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        block_out_channels=(16, 32),
        layers_per_block=1,
        latent_channels=LATENT_CHANNELS,
        norm_num_groups=8,
        sample_size=PICTURE_SIZE,
        mid_block_add_attention=False,
        use_quant_conv=False,
        use_post_quant_conv=False,
        force_upcast=False,
    )


def make_pipeline(captions: list[str]) -> FluxPipeline:
    """Builds the untrained pipeline."""
    clip_tokenizer, t5_tokenizer = make_clip_tokenizer(captions), make_t5_tokenizer(captions)
    clip_config = CLIPTextConfig(
        vocab_size=len(clip_tokenizer),
        hidden_size=TEXT_WIDTH,
        intermediate_size=2 * TEXT_WIDTH,
        projection_dim=TEXT_WIDTH,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=CLIP_POSITIONS,
        bos_token_id=clip_tokenizer.bos_token_id,
        eos_token_id=clip_tokenizer.eos_token_id,
        pad_token_id=clip_tokenizer.pad_token_id,
    )
    t5_config = T5Config(
        vocab_size=len(t5_tokenizer),
        d_model=TEXT_WIDTH,
        d_kv=TEXT_WIDTH // 4,
        d_ff=2 * TEXT_WIDTH,
        num_layers=2,
        num_heads=4,
        feed_forward_proj="gated-gelu",
        dropout_rate=0.0,
    )
    transformer = FluxTransformer2DModel(
        patch_size=1,  # FluxPipeline packs 2x2 latents into a token itself
        in_channels=4 * LATENT_CHANNELS,
        num_layers=2,
        num_single_layers=4,
        attention_head_dim=sum(ROPE_AXES),
        num_attention_heads=HEADS,
        joint_attention_dim=TEXT_WIDTH,
        pooled_projection_dim=TEXT_WIDTH,
        guidance_embeds=False,
        axes_dims_rope=ROPE_AXES,
    )
    return FluxPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(shift=1.0, use_dynamic_shifting=False),
        vae=make_vae(),
        text_encoder=CLIPTextModel(clip_config),
        tokenizer=clip_tokenizer,
        text_encoder_2=T5EncoderModel(t5_config),
        tokenizer_2=t5_tokenizer,
        transformer=transformer,
    )


def cosine_schedule(optimizer: torch.optim.Optimizer, steps: int) -> torch.optim.lr_scheduler.LambdaLR:
    """Raises the learning rate over ``WARM_UP`` steps, then lowers it to zero along a cosine."""
    return torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / WARM_UP) * 0.5 * (1 + math.cos(math.pi * step / steps))
    )


def train_vae(vae: AutoencoderKL, pictures: Tensor, steps: int, rng: torch.Generator) -> float:
    """Trains the VAE and sets the shift and the scale of its latents.

    Args:
        vae: The model, trained in place.
        pictures: Values in [-1, 1] of shape ``[pictures, 3, height, width]``.
        steps: Optimizer steps.
        rng: Chooses the pictures and samples the latents.

    Returns:
        The reconstruction's peak signal-to-noise ratio over all pictures, in dB.
    """
    optimizer = torch.optim.AdamW(vae.parameters(), lr=VAE_RATE, weight_decay=0.0)
    schedule = cosine_schedule(optimizer, steps)
    for step in range(steps):
        target = pictures[torch.randint(len(pictures), (VAE_BATCH,), generator=rng)]
        posterior = vae.encode(target).latent_dist
        output = vae.decode(posterior.sample(generator=rng)).sample
        # The differences of neighbours weigh edges, which a plain L1 leaves soft.
        edges = sum(functional.l1_loss(output.diff(dim=axis), target.diff(dim=axis)) for axis in (2, 3)) / 2
        divergence = posterior.kl().mean() / posterior.mean[0].numel()
        loss = functional.l1_loss(output, target) + 0.5 * edges + KL_WEIGHT * divergence
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(vae.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 99:
            print(f"vae step {step + 1} of {steps}: loss {loss.item():.4f}", flush=True)
    with torch.no_grad():
        latents = encode(vae, pictures)
        decoded = torch.cat([vae.decode(batch).sample for batch in latents.split(64)])
        error = (decoded - pictures).square().mean().item()
    vae.register_to_config(shift_factor=latents.mean().item(), scaling_factor=1 / latents.std().item())
    return 10 * math.log10(4 / error)  # the values span 2, and 2 squared is 4


def encode(vae: AutoencoderKL, pictures: Tensor) -> Tensor:
    """Returns the means of the latents, before shift and scale."""
    with torch.no_grad():
        return torch.cat([vae.encode(batch).latent_dist.mean for batch in pictures.split(64)])


class TextToVelocity(nn.Module):
    """The trained half of the pipeline: both text encoders and the transformer, called as FluxPipeline calls them."""

    def __init__(self, pipeline: FluxPipeline, captions: list[str]) -> None:
        """Shares the pipeline's modules and tokenizes the captions, with the empty one last."""
        super().__init__()
        self.text_encoder, self.text_encoder_2 = pipeline.text_encoder, pipeline.text_encoder_2
        self.transformer = pipeline.transformer
        texts = [*captions, ""]
        self.clip_ids = pipeline.tokenizer(
            texts, padding="max_length", max_length=CLIP_POSITIONS, truncation=True, return_tensors="pt"
        ).input_ids
        self.t5_ids = pipeline.tokenizer_2(
            texts, padding="max_length", max_length=TEXT_TOKENS, truncation=True, return_tensors="pt"
        ).input_ids
        side = PICTURE_SIZE // 4  # the VAE halves once and packing halves again
        self.image_ids = FluxPipeline._prepare_latent_image_ids(1, side, side, torch.device("cpu"), torch.float32)
        self.text_ids = torch.zeros(TEXT_TOKENS, 3)

    def forward(self, noisy: Tensor, sigmas: Tensor, labels: Tensor) -> Tensor:
        """Predicts noise minus picture.

        Args:
            noisy: Packed latents of shape ``[batch, tokens, channels]``.
            sigmas: The share of noise in each, of shape ``[batch]``.
            labels: Index of each caption, of shape ``[batch]``.
        """
        # All captions are encoded and then chosen: 49 short texts cost less than one layer of the transformer.
        pooled = self.text_encoder(self.clip_ids).pooler_output
        words = self.text_encoder_2(self.t5_ids)[0]
        velocity: Tensor = self.transformer(
            hidden_states=noisy,
            encoder_hidden_states=words[labels],
            pooled_projections=pooled[labels],
            timestep=sigmas,
            img_ids=self.image_ids,
            txt_ids=self.text_ids,
        ).sample
        return velocity


def update_average(average: Iterable[Tensor], current: Iterable[Tensor], step: int) -> None:
    """Moves the exponential average; early steps count more, so that it forgets the random start."""
    decay = min(EMA_DECAY, (1 + step) / (10 + step))
    for mean, value in zip(average, current, strict=True):
        mean.lerp_(value.detach(), 1 - decay)


def train_flow(
    pipeline: FluxPipeline,
    captions: list[str],
    latents: Tensor,
    steps: int,
    rng: torch.Generator,
    save_every: int,
    out: Path,
) -> None:
    """Trains transformer and text encoders by rectified flow and leaves their averages in the pipeline.

    Args:
        pipeline: The pipeline, changed in place.
        captions: The captions.
        latents: Packed, shifted and scaled latents of shape ``[captions, COPIES, tokens, channels]``.
        steps: Optimizer steps.
        rng: Chooses pictures, noise, levels and dropped captions.
        save_every: Saves the averages to ``out`` after each such number of steps; 0 saves none.
        out: Folder of the saved pipelines.
    """
    averaged = TextToVelocity(pipeline, captions).requires_grad_(False)
    model = copy.deepcopy(averaged).requires_grad_(True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.99), weight_decay=0.01)
    schedule = cosine_schedule(optimizer, steps)
    running, start = math.nan, time.monotonic()
    for step in range(steps):
        labels = torch.randint(len(captions), (BATCH,), generator=rng)
        clean = latents[labels, torch.randint(COPIES, (BATCH,), generator=rng)]
        noise = torch.randn(clean.shape, generator=rng)
        sigmas = torch.randn(BATCH, generator=rng).sigmoid()
        dropped = torch.rand(BATCH, generator=rng) < CAPTION_DROP
        noisy = torch.lerp(clean, noise, sigmas[:, None, None])
        output = model(noisy, sigmas, labels.masked_fill(dropped, len(captions)))
        loss = functional.mse_loss(output, noise - clean)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        update_average(averaged.parameters(), model.parameters(), step)
        running = loss.item() if math.isnan(running) else 0.98 * running + 0.02 * loss.item()
        if step % 50 == 49:
            pace = (time.monotonic() - start) / (step + 1)
            print(f"flow step {step + 1} of {steps}: loss {running:.4f}, {pace:.2f} s a step", flush=True)
        if save_every and (step + 1) % save_every == 0:
            save(pipeline, out)


def save(pipeline: FluxPipeline, out: Path) -> None:
    """Saves the pipeline with a float16 transformer, half the size in git; the small rest stays float32."""
    stored = FluxPipeline(**{**pipeline.components, "transformer": copy.deepcopy(pipeline.transformer).half()})
    stored.save_pretrained(out)


def main() -> None:
    """Trains and saves the model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=HERE, help="folder of the pipeline (default: beside this script)")
    parser.add_argument("--font", type=Path, default=FONT, help="NotoColorEmoji.ttf")
    parser.add_argument("--vae-steps", type=int, default=700)
    parser.add_argument("--steps", type=int, default=1300, help="steps of the transformer and the text encoders")
    parser.add_argument("--save-every", type=int, default=0, help="also save unfinished, every so many steps")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    start = time.monotonic()
    torch.manual_seed(arguments.seed)
    torch.set_num_threads(2)
    rng = torch.Generator().manual_seed(arguments.seed)
    captions = read_captions(HERE / "prompts.txt")
    drawn = make_pictures(captions, arguments.font, arguments.seed)
    arguments.out.mkdir(parents=True, exist_ok=True)
    means = drawn.float().mean(1).round().to(torch.uint8).numpy()
    np.savez_compressed(arguments.out / "means.npz", captions=np.array(captions), means=means)

    pipeline = make_pipeline(captions)
    pictures = drawn.flatten(0, 1).permute(0, 3, 1, 2).float() / 127.5 - 1
    quality = train_vae(pipeline.vae, pictures, arguments.vae_steps, rng)
    print(f"vae: {quality:.1f} dB after {time.monotonic() - start:.0f} s", flush=True)

    config = pipeline.vae.config
    latents = (encode(pipeline.vae, pictures) - config.shift_factor) * config.scaling_factor
    packed = FluxPipeline._pack_latents(latents, *latents.shape).unflatten(0, (len(captions), COPIES))
    train_flow(pipeline, captions, packed, arguments.steps, rng, arguments.save_every, arguments.out)
    save(pipeline, arguments.out)
    print(f"saved to {arguments.out} after {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
