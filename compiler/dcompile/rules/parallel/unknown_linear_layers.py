"""Which layers of a component would be quantized is not known.

What it checks: `quantize` of a component whose class no file describes and nobody could ask.

Why it matters: what quantizing leaves as it is depends on the class, so neither the bytes on a device nor what fits
could be told.

Example: `components: {text_encoder: {quantize: {method: torchao}}}` with an encoder of a class of one's own

Use instead: leave it out, or `model.like` with a known model of the same classes

Source: our own; `facts/generate_quantize.py` has the criteria of the libraries.
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    for name, component in subject.recipe.components.items():
        facts = subject.facts.model.components.get(name)
        if component is None or component.quantize is None or facts is None or facts.unquantized is not None:
            continue
        message = f"which layers of {facts.class_name} can be quantized is not known here"
        hint = "leave it out, or write `like: <known id>` for a model of the same classes"
        yield error("DC434", message, hint, ("components", name, "quantize"))


RULE = Rule("DC434", check)
