"""How a pipeline is guided: which argument of its call means what.

A denoiser may take the guidance it was distilled with as an input (`guidance_scale`, one call a step). Two branches, a
guided and an unguided one, are scaled by `true_cfg_scale` where the call has it, else by `guidance_scale`. Source:
diffusers 0.42.1, `pipeline_flux.py:771`, `pipeline_qwenimage.py:618`, `pipeline_flux2_klein.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from dcompile.facts.types import ModelFacts


@dataclass(frozen=True)
class Guidance:
    """Attributes:
    branches: the argument that scales two branches; None where the pipeline has one branch.
    default: what they are scaled by where the call does not say.
    takes_negative: whether the call has a `negative_prompt`.
    ignores_guidance: whether `guidance_scale` is taken and, by this model's config, not looked at.
    """

    branches: str | None
    default: float | None
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
        takes_negative="negative_prompt" in call,
        ignores_guidance=is_distilled or (has_both and config.get("guidance_embeds") is False),
    )
