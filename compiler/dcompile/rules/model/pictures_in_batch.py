"""Several pictures are to be made in one call from input pictures, or by a pipeline that takes one prompt.

What it checks: `run.batch` beside `run.images` or a column `image`, and with a pipeline that refuses a list of prompts.

Why it matters: the pipelines disagree about a list of pictures: some repeat one for every prompt, some want one for
each, some look at all of them for every prompt, and QwenImageEditPlusPipeline raises. So
does WanVACEPipeline for a list of prompts, when every weight is loaded.

Example: `run: {images: [fox.png], batch: 2}`

Use instead: `run: {images: [fox.png]}`

Source: diffusers 0.42.1, `pipeline_flux_kontext.py:694`, `pipeline_qwenimage_edit_plus.py:681`,
`pipeline_wan_vace.py:818`.
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic, Remove
from dcompile.layout.pictures import where_named
from dcompile.rules.rule import Rule, Subject, error

ONE_PROMPT = ("WanVACEPipeline",)
"""Pipelines that raise for more than one prompt."""


def check(subject: Subject) -> Iterator[Diagnostic]:
    batch = subject.recipe.run.batch
    if batch > 1 and where_named(subject.recipe, subject.facts) is not None:
        message = f"{batch} pictures cannot be made in one call from input pictures"
        yield error("DC366", message, "leave `batch` out", ("run", "batch"), fix=Remove())
    elif subject.facts.model.pipeline in ONE_PROMPT and batch > 1 and len(subject.facts.rows) > subject.splits.data:
        message = f"{subject.facts.model.pipeline} takes one prompt in a call"
        yield error("DC366", message, "leave `batch` out", ("run", "batch"), fix=Remove())


RULE = Rule("DC366", check)
