"""Weights of a single file are to be quantized.

What it checks: `quantize` where `model.path` names a `.safetensors` file.

Why it matters: the pipelines' `from_single_file` takes no configuration for quantizing: the weights would stay as they
are, and the device would be fuller than the plan says.

Example: `model: {path: flux.safetensors}` with `components: {transformer: {quantize: {method: torchao}}}`

Use instead: the folder that `pipeline.save_pretrained(...)` writes

Source: diffusers 0.42.1, `loaders/single_file.py` (`from_single_file`); rows QNT-01, QNT-07.
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    path = subject.recipe.model.path
    if path is None or not path.endswith(".safetensors"):
        return
    for name, component in subject.recipe.components.items():
        if component is not None and component.quantize is not None and not component.path and not component.id:
            message = f"`{name}` comes from a single file, which pipelines load without quantizing"
            hint = "save it once with `pipeline.save_pretrained(...)` and name that folder"
            yield error("DC433", message, hint, ("components", name, "quantize"))


RULE = Rule("DC433", check)
