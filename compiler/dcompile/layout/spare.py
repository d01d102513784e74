"""Which text encoders a pipeline can do without: data from the pipelines' `encode_prompt` of diffusers 0.42.1.

`tests/oracle/test_components.py` asks every pipeline that has a tiny one.
"""

from __future__ import annotations

from collections.abc import Mapping

SPARE_ENCODERS: Mapping[str, tuple[str, ...]] = {
    # `pipeline_stable_diffusion_3.py:248`: zeros stand for what T5 would have said.
    "StableDiffusion3": ("text_encoder_3",),
}
"""By the start of the pipeline's name. Every other pipeline encodes with each text encoder that it has: where one is
optional to its class (PixArt, HunyuanDiT), embeddings have to be given instead, which no recipe can."""


def is_needed(pipeline: str, component: str, denoisers: tuple[str, ...]) -> bool:
    """Whether a pipeline is known to fail without a component."""
    if component in denoisers or component == "vae":
        return True
    if not component.startswith("text_encoder"):
        return False
    return not any(pipeline.startswith(name) and component in spare for name, spare in SPARE_ENCODERS.items())
