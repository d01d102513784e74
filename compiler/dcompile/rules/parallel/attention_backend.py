"""The attention backend cannot do what the plan asks of it.

What it checks: `components.<denoiser>.attention` against the mode of `context`.

Why it matters: diffusers looks at the first attention layer only, and some backends ignore the split: wrong pictures
in silence.

Example: `components: {transformer: {attention: xformers}}` with `context`

Use instead: `attention: native` under Ulysses

Source: diffusers 0.42.1, `models/attention_dispatch.py` (rules.md CPB-01, CPB-02, section 2.3).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.layout.attention import ATTENTION_BACKENDS, legal_backends
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    for name, component in subject.recipe.components.items():
        if component is None or component.attention is None or name not in subject.splits.components:
            continue
        backend, split = component.attention, subject.split(name)
        path = ("components", name, "attention")
        kind = subject.facts.devices.kind
        known = ATTENTION_BACKENDS
        if backend not in known:
            close = difflib.get_close_matches(backend, known, n=1)
            hint = f"did you mean `{close[0]}`?" if close else f"use {', '.join(legal_backends(kind, split))}"
            yield error("DC410", f"`{backend}` is not an attention backend", hint, path)
        elif backend not in legal_backends(kind, split):
            mode = "ring" if split.ring > 1 else "context" if split.context > 1 else f"`{kind}` devices"
            message = f"attention backend `{backend}` cannot run under {mode}"
            yield error("DC410", message, f"use {', '.join(legal_backends(kind, split))}, or leave it out", path)


RULE = Rule("DC410", check)
