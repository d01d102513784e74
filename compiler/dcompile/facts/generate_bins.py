"""The sizes that PixArt, Sana and HunyuanDiT make of the one that is asked for; a part of `facts/generate.py`."""

from __future__ import annotations

from typing import Any

import diffusers
from diffusers.pipelines.hunyuandit import pipeline_hunyuandit as hunyuandit
from diffusers.pipelines.pixart_alpha import pipeline_pixart_alpha as alpha
from diffusers.pipelines.pixart_alpha import pipeline_pixart_sigma as sigma
from diffusers.pipelines.sana import pipeline_sana as sana


def describe_bins() -> dict[str, Any]:
    """`models/bins.json`.

    Returns:
        `by_side`: for the pixels on the side of a model's square, the height and width for each aspect (height by
        width). `hunyuandit`: aspects (width by height), widths and heights for each, and sizes that it takes as they
        are (height and width).
    """
    tables = {
        256: alpha.ASPECT_RATIO_256_BIN,
        512: alpha.ASPECT_RATIO_512_BIN,
        1024: alpha.ASPECT_RATIO_1024_BIN,
        2048: sigma.ASPECT_RATIO_2048_BIN,
        4096: sana.ASPECT_RATIO_4096_BIN,
    }
    return {
        "diffusers": diffusers.__version__,
        "by_side": {
            str(side): {aspect: [int(high), int(wide)] for aspect, (high, wide) in table.items()}
            for side, table in tables.items()
        },
        "hunyuandit": {
            "aspects": [float(aspect) for aspect in hunyuandit.STANDARD_RATIO],
            "shapes": [[list(shape) for shape in shapes] for shapes in hunyuandit.STANDARD_SHAPE],
            "taken": [list(shape) for shape in hunyuandit.SUPPORTED_SHAPE],
        },
    }
