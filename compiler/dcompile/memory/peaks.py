"""How many bytes each component of a job holds at its fullest moment: encode, denoise, decode."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from dcompile.facts.guidance import branch_calls, guidance_of
from dcompile.facts.resolve import Facts
from dcompile.facts.types import ComponentFacts, ModelFacts
from dcompile.layout.pictures import encoded_sizes
from dcompile.layout.settings import Settings, component_dtype
from dcompile.layout.shard import dtype_bytes
from dcompile.layout.splits import Split
from dcompile.memory.activations import (
    Call,
    Clip,
    Texts,
    call_peak,
    clip_peak,
    cpu_factor,
    is_measured,
    mode_of,
    text_peak,
    width_of,
)
from dcompile.memory.unmeasured import COUNTED_MARGIN, counted_call_bytes, counted_decode_bytes, counted_text_bytes
from dcompile.memory.workspace import workspace_share
from dcompile.recipe.model import Recipe

ENCODE, DENOISE, DECODE = "encode", "denoise", "decode"
PHASES = (ENCODE, DENOISE, DECODE)
"""What a call of a pipeline does, one after the other."""
_KEPT = 1024
"""Peaks that are remembered: the plans of a search differ in what they do with one component of several."""

CONNECTORS = "connectors"
"""LTX-2's component between the text encoder and the denoiser."""

KEY_CACHE = "use_kv_cache"
"""The argument of Qwen-Image 2.1's call that has keys and values kept."""

SOUND = ("audio_vae", "vocoder")
"""Components that make the sound of a clip."""

AFTERWARDS = (*SOUND, "safety_checker")
"""Components that are called when the pictures are there, on tensors of a few MiB."""

UNSEEN_ON_CPU = 0.05
UNSEEN_ELSEWHERE = 0.1
UNSEEN_CONVOLUTION = 0.25
"""Shares of a measured peak that operators may take inside themselves: on a CPU, whose convolutions were calibrated in
float32; on other devices, where nothing was measured; and for classes made of convolutions where those were not."""

PROMPT_TEMPLATES = {
    "LlamaModel": {"hunyuanvideo": 95},
    "Qwen2_5_VLForConditionalGeneration": {"qwenimage": 34, "kandinsky5": 128},
}
"""Tokens that a pipeline puts around a prompt and cuts off afterwards, by class of encoder and family.

Source: diffusers 0.42.1, `pipeline_hunyuan_video.py:88`, `pipeline_qwenimage.py:186`, `pipeline_kandinsky.py:201`.
"""


@dataclass(frozen=True)
class Peak:
    """Bytes that a component holds beside its weights at its fullest moment, and by how many that may be wrong."""

    peak_bytes: int = 0
    margin_bytes: int = 0


def samples_of_call(recipe: Recipe, model: ModelFacts, batch: int) -> int:
    """Samples that a denoiser sees at once: two for each picture where a pipeline joins both branches in one call."""
    if model.guidance["branches"] != "batched":
        return batch
    run, guidance = recipe.run, guidance_of(model)
    if guidance.branches is None:
        return batch
    own = run.guidance if guidance.branches == "guidance_scale" else None
    said = (run.args.get(guidance.branches), run.true_cfg, own, guidance.default)
    scale = next((value for value in said if value is not None), None)
    return batch if isinstance(scale, (int, float)) and scale <= guidance.above else 2 * batch


def phases_of(model: ModelFacts, name: str) -> tuple[str, ...]:
    """The phases in which a component is called; every one where its name does not say.

    A pipeline that takes pictures encodes them with its autoencoder. `AFTERWARDS` is never the fullest.
    """
    if name in model.denoisers:
        return (DENOISE,)
    if name in AFTERWARDS:
        return ()
    if name == "vae":
        return (ENCODE, DECODE) if model.pictures or model.conditions is not None else (DECODE,)
    return (ENCODE,) if "encoder" in name or name == CONNECTORS else PHASES


def texts_of(recipe: Recipe, model: ModelFacts, name: str, settings: Settings) -> Texts:
    """What an encoder takes in one call: the prompts, with what the pipeline puts around each."""
    batch = samples_of_call(recipe, model, settings.batch) if name == CONNECTORS else settings.batch
    around = PROMPT_TEMPLATES.get(model.components[name].class_name, {}).get(model.family, 0)
    return Texts(batch, settings.text_tokens + around)


def cached_keys_bytes(recipe: Recipe, facts: Facts, settings: Settings, tensor: int) -> int:
    """Keys and values of texts and input pictures that Qwen-Image 2.1 keeps from its first step to the end of the call.

    Those of every block and branch; a rank has those of its heads. Source: diffusers 0.42.1,
    `pipeline_qwenimage21.py:776`.

    Args:
        recipe, facts, settings: the job, and one shape of it.
        tensor: ranks that share the denoiser's heads.
    """
    model = facts.model
    if not recipe.run.args.get(KEY_CACHE, model.call_args.get(KEY_CACHE)):
        return 0
    name = model.denoisers[0]
    denoiser = model.components[name]
    tokens = (settings.text_tokens + settings.reference_tokens) * settings.batch
    blocks = sum(count for _, count in denoiser.blocks)
    size = dtype_bytes(component_dtype(recipe, name, facts.devices.kind))
    return 2 * branch_calls(recipe, model) * tokens * blocks * (width_of(denoiser.config) or 0) * size // tensor


def component_peaks(recipe: Recipe, facts: Facts, name: str, split: Split, settings: Settings) -> dict[str, Peak]:
    """The fullest moment of one component on one rank, in each phase in which it is called."""
    model, kind = facts.model, facts.devices.kind
    component = model.components[name]
    dtype = component_dtype(recipe, name, kind)
    if name in model.denoisers:
        image = settings.sequence_tokens
        batch = samples_of_call(recipe, model, settings.batch)
        degrees = split.tensor, split.ulysses, split.ring
        call = Call(batch, image, settings.text_tokens, *degrees, component.context_splits_text)
        peak = denoise_on(kind, component, call, dtype)
        cached = cached_keys_bytes(recipe, facts, settings, split.tensor)
        return {DENOISE: replace(peak, peak_bytes=peak.peak_bytes + cached)}
    if name == "vae":
        if dtype == "float16" and component.config.get("force_upcast"):
            dtype = "float32"  # the pipelines decode so
        own = recipe.components.get(name)
        tiles = "_tiled" if own and own.tiling else ""
        made = Clip(settings.batch, settings.height_px, settings.width_px, settings.frames or 0)
        peaks = {phase: clip_on(kind, component, made, dtype, phase + tiles) for phase in phases_of(model, name)}
        # Reference pictures are encoded one after the other, at sizes of their own.
        clips = [Clip(1, height, width, 0) for height, width in encoded_sizes(recipe, model, settings.picture_sizes)]
        encoded = [clip_on(kind, component, clip, dtype, ENCODE + tiles) for clip in clips]
        if encoded:
            peaks[ENCODE] = max(encoded, key=lambda peak: peak.peak_bytes)
        return peaks
    texts = texts_of(recipe, model, name, settings)
    return dict.fromkeys(phases_of(model, name), texts_on(kind, component, texts, dtype))


@lru_cache(maxsize=_KEPT)
def denoise_on(kind: str, component: ComponentFacts, call: Call, dtype: str) -> Peak:
    """A denoiser's call on a kind of device."""
    mode = mode_of(call)
    if not is_measured(component, mode):
        return _counted(counted_call_bytes(component, call, dtype_bytes(dtype)))
    return _seen(component, mode, dtype, kind, call_peak(component, call, dtype))


@lru_cache(maxsize=_KEPT)
def clip_on(kind: str, component: ComponentFacts, size: Clip, dtype: str, mode: str) -> Peak:
    """An autoencoder's `decode` or `encode`, `decode_tiled` or `encode_tiled` on a kind of device."""
    if not is_measured(component, mode):
        return _counted(counted_decode_bytes(component, size, dtype_bytes(dtype), mode.endswith("_tiled")))
    return _seen(component, mode, dtype, kind, clip_peak(component, size, dtype, mode))


@lru_cache(maxsize=_KEPT)
def texts_on(kind: str, component: ComponentFacts, size: Texts, dtype: str) -> Peak:
    """An encoder's call on a kind of device."""
    if not is_measured(component, "text"):
        return _counted(counted_text_bytes(component, size, dtype_bytes(dtype)))
    return _seen(component, "text", dtype, kind, text_peak(component, size, dtype))


def _seen(component: ComponentFacts, mode: str, dtype: str, kind: str, found: tuple[float, float]) -> Peak:
    """A measured peak with what a kind of device adds to it and with its margin.

    Storages that are alive are needed for sure: below them lie only the error of the fit and what was not measured.
    """
    storages, share = found
    factor = cpu_factor(component, mode)
    if kind == "cpu":
        convolves = factor > 1 or component.class_name.startswith(("Autoencoder", "UNet"))
        peak = storages * factor
        share += UNSEEN_CONVOLUTION if convolves and dtype != "float32" else UNSEEN_ON_CPU
        return Peak(round(peak), round(peak * share))
    if component.class_name.startswith("Autoencoder"):
        work, is_known = workspace_share(component.class_name, mode)
        share += work if is_known else work + UNSEEN_CONVOLUTION
        return Peak(round(storages * (1 + work)), round(storages * share))
    share += UNSEEN_CONVOLUTION if factor > 1 or component.class_name.startswith("UNet") else UNSEEN_ELSEWHERE
    return Peak(round(storages), round(storages * share))


def _counted(found: int) -> Peak:
    return Peak(found, round(found * COUNTED_MARGIN))
