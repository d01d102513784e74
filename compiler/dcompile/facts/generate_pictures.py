"""Which pictures or videos a pipeline's call cannot do without. Part of the generator: imports diffusers.

diffusers says it nowhere: most of these arguments are optional in the signature, and None fails minutes later, when it
is read. So the source is asked: does anything but `check_inputs` look whether the argument is None?
"""

from __future__ import annotations

import inspect
import re
from functools import lru_cache
from typing import Any

from diffusers.pipelines import auto_pipeline

_INPUTS = (
    "image",
    "images",
    "mask_image",
    "mask",
    "control_image",
    "control_video",
    "video",
    "pose_video",
    "face_video",
    "conditions",
    "reference_images",
)
# Read by us in diffusers 0.42.1: a call with a prompt alone makes its own empty pictures (`preprocess_conditions` of
# `pipeline_wan_vace.py`), or has none (`pipeline_ltx_condition.py`, `pipeline_flux2_klein_kv.py`). No table of the
# library lists them.
_PROMPT_IS_ENOUGH = {"Flux2KleinKVPipeline", "LTXConditionPipeline", "WanVACEPipeline"}


def needed_pictures(cls: Any) -> list[str]:
    """The picture arguments of a pipeline's call that have to be given, in the signature's order."""
    parameters = inspect.signature(cls.__call__).parameters
    given = [name for name in parameters if name in _INPUTS]
    if not given or cls.__name__ in _PROMPT_IS_ENOUGH:
        return []
    source = "\n".join(
        inspect.getsource(function)
        for name, function in vars(cls).items()
        if inspect.isfunction(function) and name != "check_inputs"
    )
    needed = [
        name
        for name in given
        if parameters[name].default is inspect.Parameter.empty
        or not re.search(rf"(?<![\w.]){name} is (not )?None", source)
    ]
    if cls.__name__ not in _from_text():
        # Only the library's own tables of text-to-something pipelines vouch for a call without a picture.
        return needed or given[:1]
    return needed


@lru_cache(maxsize=1)
def _from_text() -> frozenset[str]:
    """The pipelines that diffusers offers for a prompt alone."""
    tables = [value for name, value in vars(auto_pipeline).items() if re.fullmatch(r"AUTO_TEXT2\w+_MAPPING", name)]
    return frozenset(cls.__name__ for table in tables for cls in table.values())
