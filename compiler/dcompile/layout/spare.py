"""Which components a pipeline can do without: of text encoders, data from the pipelines' `encode_prompt` of diffusers
0.42.1; of others, what its class says.

`tests/oracle/test_components.py` asks every pipeline that has a tiny one.
"""

from __future__ import annotations

from collections.abc import Mapping

from dcompile.facts.types import ModelFacts
from dcompile.facts.uses import use_of

SPARE_ENCODERS: Mapping[str, tuple[str, ...]] = {
    # `pipeline_stable_diffusion_3.py:248`: zeros stand for what T5 would have said.
    "StableDiffusion3": ("text_encoder_3",),
}
"""By the start of the pipeline's name. Every other pipeline encodes with each text encoder that it has: where one is
optional to its class (PixArt, HunyuanDiT), embeddings have to be given instead, which no recipe can."""


def is_needed(model: ModelFacts, component: str) -> bool:
    """Whether a model's pipeline is known to fail without a component."""
    if component in model.denoisers or component == "vae":
        return True
    if component.startswith("text_encoder"):
        return not any(model.pipeline.startswith(name) and component in spare for name, spare in SPARE_ENCODERS.items())
    # Optional to Wan's class, which runs models too that see no picture (`pipeline_wan_i2v.py:698`).
    if component == "image_encoder":
        configs = (model.components[name].config for name in model.denoisers)
        return any(config.get("image_dim") is not None for config in configs)
    use = use_of(model.pipeline) if component in model.components else None
    return use is not None and component in use.components and component not in use.optional
