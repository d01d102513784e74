"""Several pictures are to be made in one call by a pipeline that takes one prompt, or that was not seen to do it right.

What it checks: `run.batch` with a pipeline that refuses a list of prompts; and beside `run.images` or a column `image`,
whether the pipeline was compared: one call for several prompts against a call for each (`picture_batches` of
`models/verified.json`).

Why it matters: the pipelines disagree about pictures and prompts. Some take one picture for all of them, some want one
for each and otherwise start the second prompt from the noise of the first, and Helios and LTX 0.9.5 fail or make
something else whatever they are given; WanVACEPipeline and QwenImageEditPlusPipeline raise when every weight is loaded.

Example: `run: {images: [fox.png], batch: 2}` with LTX-Video 0.9.5

Use instead: `run: {images: [fox.png]}`

Source: diffusers 0.42.1, `pipeline_flux_img2img.py:465`, `pipeline_helios.py:667`, `pipeline_ltx_condition.py:717`,
`pipeline_qwenimage_edit_plus.py:681`, `pipeline_wan_vace.py:818`, and the runs of `tests/oracle/test_pictures.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic, Remove
from dcompile.facts.registry import picture_batches
from dcompile.facts.uses import use_of
from dcompile.layout.pictures import where_named
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    # The first replica has the most pictures; where it has one, no call has two.
    batch, pipeline = subject.recipe.run.batch, subject.facts.model.pipeline
    if batch == 1 or len(subject.facts.rows) <= subject.splits.data:
        return
    use = use_of(pipeline)
    if use is not None and use.one_prompt:
        message = f"{pipeline} takes one prompt in a call"
    elif where_named(subject.recipe, subject.facts) is not None and pipeline not in picture_batches():
        message = f"{pipeline} was never seen to make {batch} pictures in one call from input pictures as it makes one"
    else:
        return
    yield error("DC366", message, "leave `batch` out", ("run", "batch"), fix=Remove())


RULE = Rule("DC366", check)
