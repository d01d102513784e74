"""Pipelines that draw at the nearest of their own sizes: PixArt and Sana resize the picture afterwards, HunyuanDiT not.

Source: diffusers 0.42.1, `pipeline_pixart_sigma.py:744`, `pipeline_sana.py:809`, `image_processor.py:1423`,
`pipeline_hunyuandit.py:94` and `:694`; the sizes are `models/bins.json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from dcompile.facts.pipelines import whole
from dcompile.facts.registry import MODELS, read_json
from dcompile.facts.types import ModelFacts

_RESIZES = {"pixart": 8, "sana": 32}
"""Families that resize, and by how much the side of their published models is larger than `sample_size`: the pipelines
go by the latter alone."""
_MAKES = "hunyuandit"
_SWITCH = "use_resolution_binning"


@lru_cache(maxsize=1)
def _bins() -> dict[str, Any]:
    found: dict[str, Any] = read_json(MODELS / "bins.json")
    return found


def is_binned(model: ModelFacts, args: Mapping[str, Any]) -> bool:
    """Whether a pipeline draws at a size of its own, which `run.args` can forbid."""
    knows = model.family in (*_RESIZES, _MAKES) and not model.tokens.get("frames")
    return knows and bool(args.get(_SWITCH, model.call_args.get(_SWITCH, False)))


def is_resized(model: ModelFacts, args: Mapping[str, Any]) -> bool:
    """Whether what is drawn at such a size is given out at the size that was asked for."""
    return model.family in _RESIZES and is_binned(model, args)


def own_side_px(model: ModelFacts) -> int:
    """Pixels on the side of the square that a PixArt or Sana was made for."""
    config = model.components[model.denoisers[0]].config
    return whole(config.get("sample_size")) * _RESIZES[model.family]


def has_sizes(model: ModelFacts) -> bool:
    """Whether a pipeline that resizes knows sizes for this model: it raises where it does not."""
    return str(own_side_px(model)) in _bins()["by_side"]


def binned_size(model: ModelFacts, height_px: int, width_px: int) -> tuple[int, int]:
    """The height and width that such a pipeline draws at; the given ones where it knows no size for this model."""
    bins = _bins()
    if model.family == _MAKES:
        own = bins[_MAKES]
        height, width = (side // model.tokens["spatial"] * model.tokens["spatial"] for side in (height_px, width_px))
        if [height, width] in own["taken"]:
            return height, width
        aspect = width / max(1, height)
        nearest = min(range(len(own["aspects"])), key=lambda at: abs(own["aspects"][at] - aspect))
        wide, high = min(own["shapes"][nearest], key=lambda shape: abs(shape[0] * shape[1] - width * height))
        return high, wide
    table = bins["by_side"].get(str(own_side_px(model)))
    if table is None:
        return height_px, width_px
    high, wide = table[min(table, key=lambda aspect: abs(float(aspect) - height_px / width_px))]
    return high, wide
