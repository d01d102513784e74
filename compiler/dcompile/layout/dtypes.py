"""Whose output another component takes without a conversion: data from the pipelines' `__call__` of diffusers 0.42.1.

`tests/oracle/test_components.py` asks every pipeline of this table, with each component in another dtype than the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dcompile.recipe.model import Recipe


@dataclass(frozen=True)
class Handover:
    """`sources` are joined to one tensor, which `target` takes as it is. `upcasts`: a float16 VAE decodes in float32
    where its config has `force_upcast`, and then takes anything."""

    sources: tuple[str, ...]
    target: str
    upcasts: bool = False


_LTX2 = (
    Handover(("text_encoder",), "connectors"),
    Handover(("text_encoder",), "transformer"),
    Handover(("connectors",), "transformer"),
    Handover(("audio_vae",), "vocoder"),
)
HANDOVERS: Mapping[str, tuple[Handover, ...]] = {
    # `pipeline_flux.py:386`, `:257`, `:964`: latents have the dtype of the T5 embeddings, and so has a picture.
    **dict.fromkeys(
        ("FluxPipeline", "FluxImg2ImgPipeline", "FluxKontextPipeline"),
        (
            Handover(("text_encoder_2",), "transformer"),
            Handover(("text_encoder",), "transformer"),
            Handover(("text_encoder_2",), "vae"),
        ),
    ),
    # `pipeline_flux2.py:348`, `:1027`, and klein alike
    **dict.fromkeys(
        ("Flux2Pipeline", "Flux2KleinPipeline"),
        (Handover(("text_encoder",), "transformer"), Handover(("text_encoder",), "vae")),
    ),
    # As Flux: `pipeline_chroma.py:770`, `:916`, `pipeline_lumina2.py:634`, `:733`, `pipeline_pixart_alpha.py:885`.
    **dict.fromkeys(
        (
            *("ChromaPipeline", "ChromaImg2ImgPipeline", "ChromaInpaintPipeline", "Lumina2Pipeline"),
            *("PixArtAlphaPipeline", "PixArtSigmaPAGPipeline"),
        ),
        (Handover(("text_encoder",), "transformer"), Handover(("text_encoder",), "vae")),
    ),
    # `pipeline_pixart_sigma.py:824`; latents are converted before the VAE (`:895`).
    "PixArtSigmaPipeline": (Handover(("text_encoder",), "transformer"),),
    # `pipeline_aura_flow.py:584`, `pipeline_cogview4.py:578`; latents are converted before the VAE.
    **dict.fromkeys(("AuraFlowPipeline", "CogView4Pipeline"), (Handover(("text_encoder",), "transformer"),)),
    # `pipeline_hidream_image.py:403`, `:877`, `:967`: two encoders are joined, and the latents have their dtype.
    "HiDreamImagePipeline": (
        Handover(("text_encoder", "text_encoder_2"), "transformer"),
        Handover(("text_encoder_3",), "transformer"),
        Handover(("text_encoder_4",), "transformer"),
        Handover(("text_encoder", "text_encoder_2"), "vae"),
    ),
    # `pipeline_hunyuandit.py:757`: everything is converted to the denoiser's dtype, and the VAE takes that as it is.
    "HunyuanDiTPipeline": (Handover(("transformer",), "vae"),),
    # `pipeline_stable_diffusion.py:409`, `:1071`
    "StableDiffusionPipeline": (Handover(("text_encoder",), "unet"), Handover(("text_encoder",), "vae")),
    # Z-Image and Sana convert everything: `pipeline_z_image.py:592`, `pipeline_sana.py:959`.
    # `pipeline_qwenimage.py:220`; latents are converted before the VAE (`:689`).
    "QwenImagePipeline": (Handover(("text_encoder",), "transformer"),),
    # `pipeline_qwenimage_img2img.py:444`, `pipeline_qwenimage_edit.py:450`: the picture has the embeddings' dtype.
    **dict.fromkeys(
        ("QwenImageImg2ImgPipeline", "QwenImageEditPipeline", "QwenImageEditPlusPipeline"),
        (Handover(("text_encoder",), "transformer"), Handover(("text_encoder",), "vae")),
    ),
    # `pipeline_qwenimage21.py:726`, `:735`; latents are converted before the VAE.
    "QwenImage21Pipeline": (Handover(("text_encoder",), "transformer"),),
    # `pipeline_wan.py:551`: everything is converted to the first denoiser's dtype.
    **dict.fromkeys(
        ("WanPipeline", "WanImageToVideoPipeline"),
        (Handover(("transformer",), "transformer_2"),),
    ),
    # As Flux, in videos: `pipeline_cogvideox.py:696`, `pipeline_cogvideox_image2video.py:788`, `pipeline_mochi.py:605`.
    **dict.fromkeys(
        ("CogVideoXPipeline", "CogVideoXImageToVideoPipeline", "MochiPipeline"),
        (Handover(("text_encoder",), "transformer"), Handover(("text_encoder",), "vae")),
    ),
    # `pipeline_ltx_condition.py:1194`, `:1266`
    "LTXConditionPipeline": (Handover(("text_encoder",), "transformer"), Handover(("text_encoder",), "vae")),
    # `pipeline_ltx2.py:1251`, `:1405`, `:1664`; what the connectors make is text too.
    "LTX2Pipeline": _LTX2,
    # `pipeline_ltx2_image2video.py:1365`
    "LTX2ImageToVideoPipeline": (*_LTX2, Handover(("text_encoder",), "vae")),
    # `pipeline_ltx.py:256`
    "LTXPipeline": (Handover(("text_encoder",), "transformer"),),
    # `pipeline_ltx_image2video.py:773`
    "LTXImageToVideoPipeline": (Handover(("text_encoder",), "transformer"), Handover(("text_encoder",), "vae")),
    # `pipeline_stable_diffusion_3.py:278`, `:332`, `:1008`
    **dict.fromkeys(
        ("StableDiffusion3Pipeline", "StableDiffusion3Img2ImgPipeline"),
        (
            Handover(("text_encoder", "text_encoder_3"), "transformer"),
            Handover(("text_encoder", "text_encoder_2"), "transformer"),
            Handover(("text_encoder", "text_encoder_3"), "vae"),
        ),
    ),
    # `pipeline_stable_diffusion_xl.py:414`, `:1264`
    **dict.fromkeys(
        ("StableDiffusionXLPipeline", "StableDiffusionXLImg2ImgPipeline"),
        (Handover(("text_encoder_2",), "unet"), Handover(("text_encoder_2",), "vae", upcasts=True)),
    ),
}


def joined(dtypes: tuple[str, ...]) -> str:
    """The dtype of tensors that are joined: their own where they agree, else float32 (of the three that there are)."""
    return dtypes[0] if len(set(dtypes)) == 1 else "float32"


def own_dtype(recipe: Recipe, name: str) -> str | None:
    """The dtype that the recipe writes for one component."""
    component = recipe.components.get(name)
    return component.dtype if component is not None else None
