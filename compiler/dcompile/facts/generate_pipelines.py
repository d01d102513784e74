"""Every pipeline class of diffusers: its call, and the token arithmetic of its family.

Part of the generator: imports diffusers. What a class says itself (signature, default sizes, how the guided and the
unguided branch are run) is read from its source; `_FAMILIES` has what the source says in many ways.
"""

from __future__ import annotations

import inspect
import re
import sys
from typing import Any

import diffusers
import transformers

from dcompile.facts.generate_pictures import needed_pictures

# `size` is a picture's side in latents where the call does not say (None: the signature or the denoiser's `sample_size`
# does), `patch` the latents on a token's side, `frames` the temporal compression, `rounds_frames` that a length which
# is no multiple plus one is rounded as `pipeline_wan.py:494` does, `multiple` what height and width must divide by
# (None: a token's side, 1: the pipeline floors them), `floors` what it floors them to where that is more than a token,
# `text_limit` the longest text (0: no limit), `text` a length to count with where neither that nor the signature says.
_PLAIN = {"size": None, "patch": 1, "frames": 0, "multiple": 1, "text_limit": 0}
_SQUARE = {**_PLAIN, "size": 128, "patch": 2}
_WAN = {**_PLAIN, "patch": 2, "frames": 4, "rounds_frames": True, "multiple": 16}
_FAMILIES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("Flux2", {"family": "flux2", **_SQUARE, "text_limit": 512}),
    ("Flux", {"family": "flux", **_SQUARE, "text_limit": 512}),
    # No packing: a token is one latent. Its text has the prompt's own length, of which no signature says anything.
    ("QwenImage21", {"family": "qwenimage21", **_PLAIN, "size": 64, "floors": 32, "text": 512}),
    ("QwenImage", {"family": "qwenimage", **_SQUARE, "text_limit": 1024}),
    ("Chroma", {"family": "chroma", **_SQUARE, "text_limit": 512}),
    ("ZImage", {"family": "zimage", **_SQUARE, "multiple": None}),
    ("Lumina2", {"family": "lumina2", **_SQUARE, "multiple": None, "text_limit": 512}),
    ("Wan", {"family": "wan", **_WAN}),
    ("ChronoEdit", {"family": "chronoedit", **_WAN}),
    ("SkyReelsV2", {"family": "skyreelsv2", **_WAN}),
    ("Helios", {"family": "helios", **_PLAIN, "patch": 2, "frames": 4, "multiple": 16}),
    # Packed rows, no pipeline class of its own: the modular blocks run it.
    ("MiniMaxH3", {"family": "minimaxh3", **_PLAIN}),
    ("LTX2", {"family": "ltx2", **_PLAIN, "frames": 8, "multiple": 32}),
    ("LTX", {"family": "ltx", **_PLAIN, "frames": 8, "multiple": 32}),
    # Their autoencoders compress otherwise than HunyuanVideo's.
    ("HunyuanVideo15", {"family": "hunyuanvideo15", **_PLAIN, "frames": 4}),
    ("HunyuanVideo", {"family": "hunyuanvideo", **_PLAIN, "patch": 2, "frames": 4, "multiple": 16}),
    # Those of pictures have no clip; their frame is one.
    ("Kandinsky5T2I", {"family": "kandinsky5", **_PLAIN, "patch": 2, "multiple": 16}),
    ("Kandinsky5I2I", {"family": "kandinsky5", **_PLAIN, "patch": 2, "multiple": 16}),
    ("Kandinsky5", {"family": "kandinsky5", **_WAN}),
    ("CogVideoX", {"family": "cogvideox", **_PLAIN, "patch": 2, "frames": 4, "multiple": 8}),
    ("Mochi", {"family": "mochi", **_PLAIN, "patch": 2, "frames": 6, "multiple": 8}),
    ("SanaVideo", {"family": "sanavideo", **_PLAIN, "frames": 4, "multiple": 32}),
    ("Sana", {"family": "sana", **_PLAIN, "multiple": 32}),
    ("PixArt", {"family": "pixart", **_PLAIN, "patch": 2, "multiple": 8}),
    ("CogView4", {"family": "cogview4", **_PLAIN, "patch": 2, "multiple": 16}),
    ("HiDream", {"family": "hidream", **_SQUARE}),
    ("AuraFlow", {"family": "auraflow", **_PLAIN, "patch": 2, "multiple": None}),
    ("HunyuanDiT", {"family": "hunyuandit", **_PLAIN, "patch": 2}),
    ("StableDiffusionXL", {"family": "sdxl", **_PLAIN, "multiple": 8, "text_limit": 77}),
    ("StableDiffusion3", {"family": "sd3", **_PLAIN, "patch": 2, "multiple": None, "text_limit": 512}),
    ("StableDiffusion", {"family": "sd", **_PLAIN, "multiple": 8, "text_limit": 77}),
)
_GENERIC = {"family": "other", **_PLAIN}
# Reference pictures whose tokens join the sequence: how large a picture becomes. `snapped`: the nearest of `sizes` by
# aspect; `area`: scaled to `pixels`, sides rounded to 32; `shrunk`: scaled down to `pixels` where it is larger.
# `seen`: the area at which the text encoder looks at it, whose patches of 28 pixels join the text.
_AREA = 1024 * 1024
_CONDITIONS: dict[str, dict[str, Any]] = {
    "FluxKontextPipeline": {"kind": "snapped"},
    "FluxKontextInpaintPipeline": {"kind": "snapped"},
    "Flux2Pipeline": {"kind": "shrunk", "pixels": _AREA},
    "Flux2KleinPipeline": {"kind": "shrunk", "pixels": _AREA},
    "QwenImageEditPipeline": {"kind": "area", "pixels": _AREA, "seen": _AREA},
    "QwenImageEditPlusPipeline": {"kind": "area", "pixels": _AREA, "seen": 384 * 384},
    "QwenImage21Pipeline": {"kind": "area", "pixels": _AREA, "seen": _AREA},
}
# Words of annotations: what no file can hold, and what stands around that.
_OPAQUE = {"Tensor", "FloatTensor", "LongTensor", "IntTensor", "Image", "ndarray", "Generator", "Callable"}
_AROUND = {
    "torch",
    "_C",
    "_tensor",
    "PIL",
    "numpy",
    "np",
    "class",
    "None",
    "NoneType",
    "list",
    "List",
    "Optional",
    "Union",
}
_AROUND |= {"typing", "diffusers", "callbacks", "PipelineCallback", "MultiPipelineCallbacks"}
_OWN_CLASS = re.compile(r"diffusers\.pipelines\.[\w.]+")
_BATCHED = re.compile(r"\[\s*latents\s*\]\s*\*\s*2|\[latents, latents\]|latents\w*(?:\.to\([^)]*\))?\.repeat\(2")
_DENOISED = re.compile(r"(?:self\.transformer|self\.unet|current_model|self\.prior|\btransformer)\(\s*\n")


def family_of(class_name: str) -> dict[str, Any]:
    """The family of a pipeline or a denoiser, by the start of its class's name."""
    return next((facts for prefix, facts in _FAMILIES if class_name.startswith(prefix)), _GENERIC)


def describe_pipelines() -> dict[str, Any]:
    """Every pipeline class, by name; the limit of its text is what its own check of the call says."""
    pipelines = {}
    for name in sorted(dir(diffusers)):
        cls = getattr(diffusers, name, None)
        if not (name.endswith("Pipeline") and inspect.isclass(cls) and issubclass(cls, diffusers.DiffusionPipeline)):
            continue
        if cls is diffusers.DiffusionPipeline:
            continue
        family = family_of(name)
        family = {**family, "text_limit": _text_limit(cls) or family["text_limit"], **_guided_above(cls)}
        own = {
            "conditions": _conditions(cls),
            "pictures": needed_pictures(cls),
            "adapters": adapted_components(cls),
            "no_plain_value": opaque_args(cls),
            **failing_args(cls),
            "call_args": call_args(cls),
        }
        pipelines[name] = {**family, **_from_source(cls), "fps": example_fps(cls), **own}
    return pipelines


def example_fps(cls: Any) -> int | None:
    """The frames a second at which the class's documented example writes a clip; None where it says no number."""
    example = vars(sys.modules[cls.__module__]).get("EXAMPLE_DOC_STRING", "")
    found = re.search(r"\bfps=(\d+)", example)
    return int(found[1]) if found else None


def adapted_components(cls: Any) -> list[str]:
    """The components that the pipeline loads adapters into."""
    return list(cls._lora_loadable_modules) if hasattr(cls, "load_lora_weights") else []


def opaque_args(cls: Any) -> list[str]:
    """Arguments of a pipeline's call that take tensors, pictures, functions and objects of a pipeline's own classes (as
    `LTXVideoCondition`), and nothing that text can hold."""
    return [
        key
        for key, parameter in inspect.signature(cls.__call__).parameters.items()
        if parameter.annotation is not parameter.empty
        and (words := set(re.findall(r"[A-Za-z_]+", _OWN_CLASS.sub("Tensor", str(parameter.annotation))))) & _OPAQUE
        and words <= _OPAQUE | _AROUND
    ]


def failing_args(cls: Any) -> dict[str, list[str]]:
    """Arguments that every value but none fails with; an entry where there are some.

    With `clip_skip` Stable Diffusion looks for a part that the text encoders of this transformers do not have
    (`pipeline_stable_diffusion.py:389`).
    """
    has_part = "self.text_model" in inspect.getsource(transformers.CLIPTextModel)
    if "clip_skip" not in inspect.signature(cls.__call__).parameters or has_part:
        return {}
    encodes = inspect.getsource(cls.encode_prompt) if hasattr(cls, "encode_prompt") else ""
    return {"failing": ["clip_skip"]} if "self.text_encoder.text_model." in encodes else {}


def call_args(cls: Any) -> dict[str, Any]:
    """The arguments of a pipeline's call with their defaults; None where there is none or it is no plain value."""
    return {
        key: parameter.default if _plain(parameter.default) else None
        for key, parameter in inspect.signature(cls.__call__).parameters.items()
        if key != "self" and parameter.kind is not inspect.Parameter.VAR_KEYWORD
    }


def _from_source(cls: Any) -> dict[str, Any]:
    """How guidance is run, the sizes that `__init__` sets, and the frames of a call that does not say."""
    try:
        call = inspect.getsource(inspect.unwrap(cls.__call__))
        start = inspect.getsource(cls.__init__)
    except (OSError, TypeError):
        return {"branches": None, "takes_guidance": False, "default_size": None, "default_frames": None}
    if _BATCHED.search(call):
        branches = "batched"
    elif "self.guider" in call or len(_DENOISED.findall(call)) > 1:
        branches = "sequential"
    else:
        branches = None
    sides = [re.search(rf"self\.default_{side} = (\d+)", start) for side in ("height", "width")]
    frames = re.search(r"^ +num_frames = (\d+)$", call, re.MULTILINE)
    return {
        "branches": branches,
        "takes_guidance": bool(re.search(r"\bguidance=guidance\b", call)),
        "default_size": [int(side[1]) for side in sides if side] or None,
        "default_frames": int(frames[1]) if frames else None,
    }


def _guided_above(cls: Any) -> dict[str, float]:
    """The scale above which there are two branches, where it is not 1 (`pipeline_z_image.py:283`)."""
    asked = getattr(cls, "do_classifier_free_guidance", None)
    found = re.search(r"_guidance_scale > ([0-9.]+)", inspect.getsource(asked.fget)) if asked is not None else None
    return {"above": float(found[1])} if found and float(found[1]) != 1 else {}


def _text_limit(cls: Any) -> int:
    """The `max_sequence_length` above which a pipeline raises; 0 where it does not look."""
    try:
        checks = inspect.getsource(cls.check_inputs)
    except (AttributeError, OSError, TypeError):
        return 0
    found = re.search(r"max_sequence_length > (\d+)", checks)
    return int(found[1]) if found else 0


def _conditions(cls: Any) -> dict[str, Any] | None:
    found = _CONDITIONS.get(cls.__name__)
    if found is not None and found["kind"] == "snapped":
        sizes = vars(sys.modules[cls.__module__])["PREFERRED_KONTEXT_RESOLUTIONS"]
        return {**found, "sizes": [[height, width] for width, height in sizes]}
    return found


def _plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(_plain(item) for item in value)
    return isinstance(value, (bool, int, float, str))
