"""`quantize` for weights that are quantized in their files.

What it checks: `quantization_config` in the component's published configuration beside `components.<name>.quantize`.

Why it matters: the library keeps the published way and ignores the one that is asked for, or fails where the two are
of different methods.

Example: `model: {path: flux-nf4}` with `components: {transformer: {quantize: {method: torchao}}}`

Use instead: leave `quantize` out, or name the model in bfloat16

Source: diffusers 0.42.1, `quantizers/auto.py` (`merge_quantization_configs`) and `models/modeling_utils.py:1185`.
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    for name, component in subject.recipe.components.items():
        facts = subject.facts.model.components.get(name)
        if component is None or component.quantize is None or facts is None:
            continue
        published = facts.config.get("quantization_config")
        if isinstance(published, dict):
            method = published.get("quant_method", "an unknown method")
            message = f"the weights of `{name}` are quantized in their files ({method})"
            hint = "leave `quantize` out, or name the model in bfloat16"
            yield error("DC432", message, hint, ("components", name, "quantize"))


RULE = Rule("DC432", check)
