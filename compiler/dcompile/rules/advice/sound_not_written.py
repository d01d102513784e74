"""The pipeline makes a clip with sound, and the sound is not written.

What it checks: models that have an autoencoder of sound.

Why it matters: the files of a run hold the pictures of a clip alone, so half of the work is lost in silence.

Example: `model: {id: Lightricks/LTX-2}`

Use instead: `dcompile.load` in a script of your own, whose call gives `frames` and `audio`

Source: our own; diffusers 0.42.1, `pipelines/ltx2/pipeline_output.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.memory.peaks import SOUND
from dcompile.rules.rule import Rule, Subject, advice


def check(subject: Subject) -> Iterator[Diagnostic]:
    model = subject.facts.model
    if SOUND[0] in model.components:
        message = f"{model.pipeline} makes sound too, which a run does not write"
        hint = "call `dcompile.load(...)` in a script where you need it"
        yield advice("DC607", message, hint, subject.given("model", "id"))


RULE = Rule("DC607", check)
