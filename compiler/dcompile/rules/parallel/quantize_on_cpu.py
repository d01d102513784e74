"""bitsandbytes is asked for on a machine without an accelerator.

What it checks: `method: bitsandbytes` with `kind: cpu`.

Why it matters: diffusers refuses it while the weights are loaded.

Example: `components: {transformer: {quantize: {method: bitsandbytes, type: nf4}}}` with `kind: cpu`

Use instead: `quantize: {method: torchao, type: int8wo}`

Source: diffusers 0.42.1, `quantizers/bitsandbytes/bnb_quantizer.py:64` and `:383` (row QNT-03).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    if subject.facts.devices.kind != "cpu":
        return
    for name, component in subject.recipe.components.items():
        quantize = component.quantize if component is not None else None
        if quantize is not None and quantize.method == "bitsandbytes":
            path = ("components", name, "quantize", "method")
            message = f"bitsandbytes quantizes on an accelerator, and `{name}` runs on a CPU"
            yield error("DC431", message, "use `{method: torchao, type: int8wo}`", path)


RULE = Rule("DC431", check)
