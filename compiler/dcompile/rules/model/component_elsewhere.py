"""A part of the pipeline is not in the model's repository.

What it checks: `model.id` of models whose repository leaves a component to be loaded from another one.

Why it matters: diffusers fails once the rest is downloaded, because its pipeline expects a component that is not there.

Example: `model: {id: HiDream-ai/HiDream-I1-Full}`, whose fourth text encoder is Llama 3.1, under a licence of its own

Use instead: a folder of the whole pipeline: `model: {path: hidream, like: HiDream-ai/HiDream-I1-Full}`

Source: diffusers 0.42.1, `pipeline_hidream_image.py:50`.
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.rules.rule import Rule, Subject, error

ELSEWHERE = {"HiDream-ai/HiDream-I1-Full": ("text_encoder_4", "meta-llama/Meta-Llama-3.1-8B-Instruct")}
"""The component that a repository does not have, and the repository that has it."""


def check(subject: Subject) -> Iterator[Diagnostic]:
    model = subject.recipe.model
    found = ELSEWHERE.get(model.id or "")
    if found is not None and model.path is None:
        name, where = found
        message = f"`{name}` is not in {model.id}: its pipeline takes that of {where}"
        hint = f"save the whole pipeline with `save_pretrained`, and write `path: FOLDER` and `like: {model.id}`"
        yield error("DC319", message, hint, ("model", "id"))


RULE = Rule("DC319", check)
