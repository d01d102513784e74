"""Facts of a single `.safetensors` file: which known model its denoiser is, by the number of its weights.

Original checkpoints and diffusers' own name and stack weights differently, but a model has the same number of them
either way. So the exact number of the denoiser's weights (parameters and saved buffers) identifies a known model, and
nothing is guessed where it does not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any

from dcompile.facts.errors import FactsError
from dcompile.facts.registry import MODELS, load_model, read_json
from dcompile.facts.safetensors import read_header
from dcompile.facts.types import ModelFacts

_PREFIX = "model.diffusion_model."
# Parts of whole checkpoints that are no denoiser.
_OTHERS = (
    "first_stage_model.",
    "cond_stage_model.",
    "conditioner.",
    "text_encoders.",
    "text_encoder.",
    "vae.",
    "model_ema.",
    "audio_vae.",
    "vocoder.",
)
_LIKE = "write `like: <known id>` beside `path`; `dcompile models` lists the known ids"


@lru_cache(maxsize=1)
def _known() -> dict[str, Any]:
    return dict(read_json(MODELS / "denoisers.json"))


def _models_with(count: int, tensors: Collection[str]) -> list[str]:
    """The known models whose denoiser has so many weights; a tensor that one alone has decides between them."""
    keys = _known()["keys"]
    found = _known()["models"].get(str(count), [])
    named = [name for name in found if keys.get(name) in tensors]
    return named or [name for name in found if name not in keys]


def facts_of_file(path: Path) -> ModelFacts:
    """The facts of the known model that a single file holds.

    Args:
        path: a `.safetensors` file with a whole checkpoint or a denoiser alone.

    Raises:
        FactsError: where the file is damaged, or is not exactly one of the known models.
    """
    tensors = read_header(path)
    prefixed = [name for name in tensors if name.startswith(_PREFIX)]
    names = prefixed or [name for name in tensors if not name.startswith(_OTHERS)]
    count = sum(prod(tensors[name][0]) for name in names)
    found = _models_with(count, tensors)
    if len(found) > 1:
        known = " or ".join(f"`{name}`" for name in found)
        raise FactsError(f"`{path}` has the weights of {known}", f"write `like: {found[0]}` or the other beside `path`")
    if not found:
        raise FactsError(f"`{path}` has {count:,} weights in its denoiser, as no known model has", _LIKE)
    model = load_model(found[0])
    sizes: Counter[str] = Counter()
    for name in names:
        sizes[tensors[name][1]] += prod(tensors[name][0])
    name = model.denoisers[0]
    denoiser = replace(model.components[name], dtype=sizes.most_common(1)[0][0])
    return replace(
        model,
        id=path.stem,
        components={**model.components, name: denoiser},
        source=f"{path.name} has the weights of {found[0]}; {model.source}",
    )
