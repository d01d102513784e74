"""How a pipeline is guided: which argument of its call means what.

A denoiser may take the guidance it was distilled with as an input (`guidance_scale`, one call a step). Two branches, a
guided and an unguided one, are scaled by `true_cfg_scale` where the call has it, else by `guidance_scale`. Source:
diffusers 0.42.1, `pipeline_flux.py:771`, `pipeline_qwenimage.py:618`, `pipeline_flux2_klein.py`. LTX-2 has further
kinds of guidance, each with a call of the denoiser of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dcompile.facts.types import ModelFacts
from dcompile.recipe.model import Recipe

EXTRA_CALLS = {"stg_scale": 0.0, "modality_scale": 1.0}
"""Arguments of LTX-2's call, and the number above which they have the denoiser called once more a step. The sound's own
ones (`audio_stg_scale`) do so too. Source: diffusers 0.42.1, `pipeline_ltx2.py:1404`, `:1486`, `:1526`."""


@dataclass(frozen=True)
class Guidance:
    """Attributes:
    branches: the argument that scales two branches; None where the pipeline has one branch.
    default: what they are scaled by where the call does not say.
    above: the scale above which there are two: 1, and for Z-Image, which adds their difference, 0.
    takes_negative: whether the call has a `negative_prompt`.
    ignores_guidance: whether `guidance_scale` is taken and, by this model's config, not looked at.
    """

    branches: str | None
    default: float | None
    above: float
    takes_negative: bool
    ignores_guidance: bool


def guidance_of(model: ModelFacts) -> Guidance:
    """How a known pipeline is guided."""
    call = model.call_args
    is_distilled = model.pipeline_config.get("is_distilled") is True  # FLUX.2-klein has one branch then
    name = "true_cfg_scale" if "true_cfg_scale" in call else "guidance_scale"
    branches = name if model.guidance["branches"] is not None and name in call and not is_distilled else None
    default = call.get(name)
    config = model.components[model.denoisers[0]].config if model.denoisers else {}
    has_both = {"guidance_scale", "true_cfg_scale"} <= call.keys()
    return Guidance(
        branches=branches,
        default=float(default) if isinstance(default, (int, float)) else None,
        above=float(model.guidance.get("above", 1)),
        takes_negative="negative_prompt" in call,
        ignores_guidance=is_distilled or (has_both and config.get("guidance_embeds") is False),
    )


def branch_calls(recipe: Recipe, model: ModelFacts) -> int:
    """Passes of the denoiser over one sample in a step: 2 where a guided and an unguided branch are run."""
    run, guidance = recipe.run, guidance_of(model)
    if guidance.branches is None:
        return 1
    if guidance.branches == "true_cfg_scale":
        asks = run.true_cfg is not None or run.negative_prompt is not None
        scale = run.true_cfg if run.true_cfg is not None else guidance.default
        return 2 if asks and (scale or 0) > guidance.above else 1
    given = run.true_cfg if run.true_cfg is not None else run.guidance
    return 2 if (given if given is not None else guidance.default or 0) > guidance.above else 1


def extra_calls(model: ModelFacts, args: Mapping[str, Any]) -> int:
    """Calls of the denoiser in a step beside those of the two branches, each on one sample a picture.

    Args:
        model: the facts.
        args: `run.args` of the recipe.
    """
    call = {**model.call_args, **args}
    scales = {name: (call.get(name), call.get(f"audio_{name}")) for name in EXTRA_CALLS if name in model.call_args}
    return sum(
        any(isinstance(scale, (int, float)) and scale > EXTRA_CALLS[name] for scale in found)
        for name, found in scales.items()
    )
