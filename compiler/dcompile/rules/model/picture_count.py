"""More pictures are given than the pipeline takes.

What it checks: the number of `run.images`, and of each row's own, against what the pipeline does with a list: one
picture for the call, or several that it looks at together.

Why it matters: a pipeline of one picture takes a list for pictures of several prompts, and fails or makes something
else; a picture for each prompt belongs into the prompt file.

Example: `run: {images: [fox.png, hat.png]}` with FLUX.1 Kontext

Use instead: `run: {images: [fox.png]}`, or a column `image` in the prompt file

Source: diffusers 0.42.1, `pipeline_flux_kontext.py:681`, `pipeline_flux2.py:893`,
`pipeline_qwenimage_edit_plus.py:697`.
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.core.numbered import numbered
from dcompile.facts.uses import use_of
from dcompile.layout.pictures import where_named
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    if where_named(subject.recipe, subject.facts) is None:
        return
    use = use_of(subject.facts.model.pipeline)
    if use is None or use.pictures != "one":
        return
    pipeline, named = subject.facts.model.pipeline, subject.recipe.run.images or ()
    if len(named) > 1:
        message = f"{pipeline} takes one picture, and there are {len(named)}"
        hint = "name one; pictures that belong to single prompts go into a column `image` of the prompt file"
        yield error("DC362", message, hint, ("run", "images"))
    several = [row.index for row in subject.facts.rows if row.images is not None and len(row.images) > 1]
    if several:
        message = f"{pipeline} takes one input picture, and there are several for {numbered('picture', several)}"
        yield error("DC362", message, "name one", ("run", "prompts"))


RULE = Rule("DC362", check)
