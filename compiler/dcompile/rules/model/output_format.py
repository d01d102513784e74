"""The pipeline makes pictures where a video is asked for, or a video where pictures are.

What it checks: `output.format` against what the pipeline's call returns.

Why it matters: everything is loaded and made, and only then it turns out that the file cannot be written.

Example: `output: {format: mp4}` with FLUX.1-dev

Use instead: `output: {format: png}`

Source: our own `runtime/outputs.py`: `mp4` holds a list of frames, the other formats one picture.
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    asked, makes_video = subject.recipe.output.format, subject.settings.frames is not None
    if asked is None or (asked == "mp4") == makes_video:
        return
    what, hint = ("videos", "write `format: mp4`") if makes_video else ("pictures", "use `png`, `jpg` or `webp`")
    message = f"{subject.facts.model.pipeline} makes {what}, which `{asked}` cannot hold"
    yield error("DC317", message, hint, ("output", "format"), fix="mp4" if makes_video else None)


RULE = Rule("DC317", check)
