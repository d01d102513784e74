"""The pipeline cannot run from a prompt alone.

What it checks: the pictures and videos without which the pipeline's call fails. `run.images`, or a column `image` of
the prompt file, gives the one that is called `image`; masks, control pictures and videos cannot be given yet.

Why it matters: diffusers lets most of these arguments be left out, and fails on the missing picture when every weight
is loaded.

Example: `model: {id: Wan-AI/Wan2.1-I2V-14B-480P-Diffusers}`

Use instead: `run: {images: [fox.png]}`, or `model: {id: Wan-AI/Wan2.1-T2V-14B-Diffusers}`

Source: diffusers 0.42.1, the source of each pipeline's `__call__`.
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic, Path
from dcompile.core.numbered import numbered
from dcompile.rules.rule import Rule, Subject, error

NEEDS_PICTURES = "DC330"
GIVEN = "image"
"""The argument that `run.images` is passed as."""


def check(subject: Subject) -> Iterator[Diagnostic]:
    recipe, model = subject.recipe, subject.facts.model
    if not model.pictures:
        return
    others = [name for name in model.pictures if name != GIVEN]
    if others:
        source: Path = ("model", "id" if recipe.model.path is None else "path")
        asked = subject.given("model", "pipeline") if recipe.model.pipeline else subject.given("run", "task")
        names = " and ".join(f"`{name}`" for name in others)
        message = f"{model.pipeline} needs {names}, which recipes cannot give yet"
        yield error(NEEDS_PICTURES, message, "use another pipeline", asked if len(asked) > 1 else source)
    elif recipe.run.images is None:
        without = [row.index for row in subject.facts.rows if row.images is None]
        if not without:
            return
        some = any(row.images is not None for row in subject.facts.rows)
        message = f"{model.pipeline} needs an input picture"
        message += f", and there is none for {numbered('picture', without)}" if some else ""
        yield error(NEEDS_PICTURES, message, "name it: `images: [fox.png]`", ("run", "prompts") if some else ("run",))


RULE = Rule(NEEDS_PICTURES, check)
