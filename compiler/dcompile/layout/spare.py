"""Which text encoders a pipeline can do without: data from the pipelines' `encode_prompt` of diffusers 0.42.1.

`tests/oracle/test_components.py` asks every pipeline of this table.
"""

from __future__ import annotations

from collections.abc import Mapping

SPARE_ENCODERS: Mapping[str, tuple[str, ...]] = {
    "FluxPipeline": (),
    "Flux2Pipeline": (),
    "QwenImagePipeline": (),
    "WanPipeline": (),
    "LTXPipeline": (),
    # `pipeline_stable_diffusion_3.py:248`: zeros stand for what T5 would have said.
    "StableDiffusion3Pipeline": ("text_encoder_3",),
    "StableDiffusionXLPipeline": (),
}


def is_needed(pipeline: str, component: str, denoisers: tuple[str, ...]) -> bool:
    """Whether a pipeline is known to fail without a component."""
    if component in denoisers or component == "vae":
        return True
    spare = SPARE_ENCODERS.get(pipeline)
    return spare is not None and component.startswith("text_encoder") and component not in spare
