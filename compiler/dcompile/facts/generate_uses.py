"""What each pipeline class needs to run on a model's components: `models/uses.json`. Imports diffusers.

Read only where a recipe has input pictures or asks for another pipeline than the model's own.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from typing import Any, get_args

import diffusers
from diffusers.pipelines import auto_pipeline

# The library's tables by what is made of what (diffusers 0.42.1, `pipelines/auto_pipeline.py`).
_TASKS = {
    "AUTO_TEXT2IMAGE_PIPELINES_MAPPING": "text-to-image",
    "AUTO_IMAGE2IMAGE_PIPELINES_MAPPING": "image-to-image",
    "AUTO_INPAINT_PIPELINES_MAPPING": "inpainting",
    "AUTO_TEXT2VIDEO_PIPELINES_MAPPING": "text-to-video",
    "AUTO_IMAGE2VIDEO_PIPELINES_MAPPING": "image-to-video",
    "AUTO_VIDEO2VIDEO_PIPELINES_MAPPING": "video-to-video",
}
_DENOISER = r"self\.(?:transformer|unet)\.(?:config\.)?in_channels"
_CHANNELS = re.compile(
    rf"(?:num_channels_latents|latent_channels) = (?:{_DENOISER}(?: // (\d+))?|self\.(vae)\.config\.\w+)\s*\n"
)
# `pipeline_wan.py:520` asks a second denoiser where there is no first.
_EITHER = re.compile(rf"num_channels_latents = \(\s*{_DENOISER}\s+if self\.transformer is not None")
_LIBRARIES = ("diffusers", "transformers")
# They make a picture of another size than the one that they are given.
_ENLARGES = ("Upscale", "SuperResolution")


def describe_uses() -> dict[str, Any]:
    """`tasks`: for each task the table of diffusers, key to class. `pipelines`: every class by name."""
    tables = vars(auto_pipeline)
    base = diffusers.DiffusionPipeline
    classes = [getattr(diffusers, name, None) for name in sorted(dir(diffusers)) if name.endswith("Pipeline")]
    pipelines = {
        cls.__name__: describe_use(cls)
        for cls in classes
        if inspect.isclass(cls) and issubclass(cls, base) and cls is not base
    }
    return {
        "tasks": {task: {key: cls.__name__ for key, cls in tables[table].items()} for table, task in _TASKS.items()},
        "pipelines": pipelines,
    }


def describe_use(cls: Any) -> dict[str, Any]:
    """What one class is built from and what it does with an input picture; `modules` are others that a run imports.

    `components`: name to the classes that its constructor names (none where it names no class of a library);
    `optional`: those that it can do without; `settings`: the constructor's other arguments. `channels`: the latents
    are the denoiser's input channels over this number; `vae`: those of the autoencoder, so that the denoiser's input
    has something stacked on it; None: the pipeline does not say. `pictures`: whether `image` takes `one` picture or
    `several`. `size_from`: the picture that height and width follow where the call does not say: `first` or `last` of
    the references as they are encoded, or `picture`, as its file has it. `strength`: the argument that says which share
    of the steps is run, and whether their number is rounded down (`strength_floors`), so that none may be left.
    `one_prompt`: the call raises for a list of prompts.
    """
    parameters = inspect.signature(cls.__init__).parameters
    required, defaulted = cls._get_signature_keys(cls)
    modules = [name for name in parameters if name in required or name in cls._optional_components]
    try:
        call = inspect.getsource(inspect.unwrap(cls.__call__))
    except (OSError, TypeError):
        call = ""
    found = _CHANNELS.search(call)
    channels = (int(found[1] or 1) if not found[2] else "vae") if found else 1 if _EITHER.search(call) else None
    takes = inspect.signature(cls.__call__).parameters
    strength = re.search(r"self\.get_timesteps\([^)]*?\b(\w*strength)\b", call)
    floors = strength is not None and "int(num_inference_steps * strength)" in inspect.getsource(cls.get_timesteps)
    pictures = None
    if "image" in takes and not any(word in cls.__name__ for word in _ENLARGES):
        pictures = "several" if re.search(r"for \w+ in image:", call) else "one"
    size_from = None
    if "image" in takes and ("height" not in takes or re.search(r"height = (?:init_)?image\.shape", call)):
        size_from = "picture"
    elif "height = height or image_height" in call:
        size_from = "first"
    elif "height = height or calculated_height" in call:
        size_from = "last" if "image[-1].size" in call else "first"
    return {
        "components": {name: _classes(parameters[name].annotation) for name in modules},
        "optional": [name for name in modules if name in cls._optional_components or name in defaulted],
        "settings": [name for name in parameters if name != "self" and name not in modules],
        "channels": channels,
        "pictures": pictures,
        "size_from": size_from,
        "modules": [
            *(["av"] if re.search(r"\bapply_image_conditioning_crf\(", call) else []),
            *(["ftfy"] if _cleans_text(cls) else []),
            *(["torchvision"] if any(_sees_videos(parameters[name].annotation) for name in required) else []),
        ],
        "strength": strength[1] if strength else None,
        "strength_floors": floors,
        "one_prompt": bool(call) and _takes_one_prompt(call),
    }


def _takes_one_prompt(call: str) -> bool:
    """Whether the call raises for more than one prompt, whatever else it is given: a condition of its outermost code.

    `if batch_size > 1: raise` of `pipeline_qwenimage_edit_plus.py:682`, `not isinstance(prompt, str)` of
    `pipeline_wan_vace.py:818`.
    """
    (function,) = ast.parse(textwrap.dedent(call)).body
    assert isinstance(function, ast.FunctionDef)
    conditions = (
        ast.unparse(node.test)
        for node in function.body
        if isinstance(node, ast.If) and any(isinstance(part, ast.Raise) for part in node.body)
    )
    return any(
        re.fullmatch(r"batch_size (> 1|!= 1)|prompt is not None and \(?not isinstance\(prompt, str\)\)?", condition)
        for condition in conditions
    )


def _cleans_text(cls: Any) -> bool:
    """Whether the pipeline fails without ftfy: it imports that where it is there, and calls it in any case."""
    source = inspect.getsource(inspect.getmodule(cls) or cls)
    return bool(re.search(r"def basic_clean\(text\):\n    text = ftfy\.fix_text", source))


def _sees_videos(annotation: Any) -> bool:
    """Whether a component is a processor of videos too, though it may be given text alone: transformers makes that part
    of it with torchvision only, and does not load the processor without."""
    return inspect.isclass(annotation) and "video_processor" in inspect.signature(annotation.__init__).parameters


def _classes(annotation: Any) -> list[str]:
    """The classes that an annotation allows; none where it is text or leaves the choice to a base class."""
    kinds = [kind for kind in (get_args(annotation) or (annotation,)) if kind is not type(None)]
    named = all(inspect.isclass(kind) and kind.__module__.partition(".")[0] in _LIBRARIES for kind in kinds)
    return sorted(kind.__name__ for kind in kinds) if named else []
