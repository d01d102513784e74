"""Measures the quickstart model: how often a picture shows the emoji that its prompt named.

For each caption, ``means.npz`` holds the mean of its training pictures. A generated picture counts as right where the
mean nearest to it in pixels is the one of its own caption::

    python recipes/quickstart_model/evaluate.py --sheet /tmp/sheet.png

Picture ``i`` has caption ``i`` modulo the number of captions and seed ``i``, so any one of them can be made again.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from diffusers import FluxPipeline
from numpy.typing import NDArray
from PIL import Image

HERE = Path(__file__).resolve().parent
STEPS = 20
GUIDANCE = 3.0
TEXT_TOKENS = 8  # as in training: Flux does not mask padding
BATCH = 24
PASS_SHARE = 0.95
SHEET_COLUMNS = 12
SHEET_ZOOM = 3


@dataclass(frozen=True)
class Means:
    """The mean training picture of each caption.

    Attributes:
        captions: The captions.
        pictures: Bytes of shape ``[captions, height, width, 3]``.
    """

    captions: list[str]
    pictures: NDArray[np.uint8]

    @classmethod
    def load(cls, path: Path) -> "Means":
        """Reads the file that ``train.py`` writes."""
        with np.load(path) as stored:
            return cls(stored["captions"].tolist(), stored["means"])

    def nearest(self, picture: NDArray[np.uint8]) -> str:
        """Returns the caption whose mean is nearest to a picture in squared pixel distance."""
        differences = self.pictures.astype(np.float64) - picture.astype(np.float64)
        return self.captions[int(np.square(differences).sum((1, 2, 3)).argmin())]


def generate(pipeline: FluxPipeline, prompts: list[str], seeds: list[int], size: int) -> list[Image.Image]:
    """Draws one square picture for each prompt, in batches; each picture has a generator of its own."""
    pictures: list[Image.Image] = []
    for first in range(0, len(prompts), BATCH):
        batch = prompts[first : first + BATCH]
        pictures += pipeline(
            prompt=batch,
            negative_prompt=[""] * len(batch),
            true_cfg_scale=GUIDANCE,
            num_inference_steps=STEPS,
            height=size,
            width=size,
            max_sequence_length=TEXT_TOKENS,
            generator=[torch.Generator("cpu").manual_seed(seed) for seed in seeds[first : first + BATCH]],
        ).images
    return pictures


def make_sheet(pictures: list[Image.Image]) -> Image.Image:
    """Lays the pictures out in rows, enlarged without smoothing."""
    side = pictures[0].width * SHEET_ZOOM
    rows = -(-len(pictures) // SHEET_COLUMNS)
    sheet = Image.new("RGB", (SHEET_COLUMNS * side, rows * side), "white")
    for index, picture in enumerate(pictures):
        place = (index % SHEET_COLUMNS * side, index // SHEET_COLUMNS * side)
        sheet.paste(picture.resize((side, side), Image.Resampling.NEAREST), place)
    return sheet


def main() -> int:
    """Prints the score and each wrong picture; returns 1 where the score is too low."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, default=HERE, help="folder of the pipeline (default: beside this script)")
    parser.add_argument("--pictures", type=int, default=100, help="how many pictures to draw")
    parser.add_argument("--sheet", type=Path, help="also save all the pictures, as one PNG")
    arguments = parser.parse_args()

    means = Means.load(arguments.model / "means.npz")
    pipeline = FluxPipeline.from_pretrained(arguments.model)
    pipeline.set_progress_bar_config(disable=True)
    prompts = [means.captions[index % len(means.captions)] for index in range(arguments.pictures)]
    pictures = generate(pipeline, prompts, list(range(arguments.pictures)), means.pictures.shape[1])
    if arguments.sheet:
        make_sheet(pictures).save(arguments.sheet)

    right = 0
    for seed, (prompt, picture) in enumerate(zip(prompts, pictures, strict=True)):
        found = means.nearest(np.asarray(picture))
        right += found == prompt
        if found != prompt:
            print(f"seed {seed}: '{prompt}' is nearest to '{found}'")
    print(f"{right} of {len(pictures)} pictures show their prompt")
    return 0 if right >= PASS_SHARE * len(pictures) else 1


if __name__ == "__main__":
    sys.exit(main())
