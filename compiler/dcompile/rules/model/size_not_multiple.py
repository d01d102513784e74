"""Height or width is not a multiple of what the pipeline needs.

What it checks: `run.height` and `run.width` against the size of a token.

Why it matters: Wan and LTX raise after loading; Flux and Qwen floor the size with a warning that is easy to miss.

Example: `run: {height: 1000}` with Wan

Use instead: `run: {height: 992}` or `1008`

Source: diffusers 0.42.1, `pipeline_wan.py:292`, `pipeline_ltx.py:377`, `pipeline_flux.py:453` (rules.md CALL-01,
CALL-02).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.rules.rule import Rule, Subject, error, warning


def check(subject: Subject) -> Iterator[Diagnostic]:
    tokens = subject.facts.model.tokens
    strict = tokens.get("multiple", 1)
    for name, pixels in (("height", subject.settings.height_px), ("width", subject.settings.width_px)):
        step = strict if strict > 1 else tokens["spatial"]
        if pixels % step:
            lower = pixels // step * step
            hint = f"use {lower} or {lower + step}" if lower else f"use {step}"
            message = f"{name} {pixels} is not a multiple of {step}"
            if strict > 1 or not lower:
                yield error("DC308", message, hint, subject.given("run", name))
            else:
                yield warning("DC308", f"{message}; the pipeline makes {lower}", hint, subject.given("run", name))


RULE = Rule("DC308", check)
