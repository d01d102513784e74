"""A method of quantizing has no such type.

What it checks: `type` against what the runtime can ask of the method. Those of torchao that leave activations as they
are and need no further package: `int8wo`, `float8wo`, `float8wo_e5m2`. Those of bitsandbytes: `int8`, `nf4`, `fp4`.

Why it matters: torchao's other types quantize activations too, or ask for kernels that are packages of their own
(`int4wo` for mslk), and the refusal comes while weights are loaded.

Example: `quantize: {method: torchao, type: nf4}`

Use instead: `quantize: {method: torchao, type: int8wo}`

Source: torchao 0.18, `quantization/quant_api.py`; diffusers 0.42.1, `quantization_config.py:173`.
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.core.meant import meant
from dcompile.layout.stored import TYPES
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    for name, component in subject.recipe.components.items():
        quantize = component.quantize if component is not None else None
        if quantize is None or quantize.method not in TYPES or quantize.type is None:
            continue
        known = tuple(TYPES[quantize.method])
        if quantize.type in known:
            continue
        others = [method for method, types in TYPES.items() if quantize.type in types]
        hint = f"use {', '.join(f'`{one}`' for one in known)}" + (f", or `method: {others[0]}`" if others else "")
        message = f"{quantize.method} has no type `{quantize.type}` that this version quantizes weights to"
        path = ("components", name, "quantize", "type")
        yield error("DC430", message, hint, path, fix=meant(quantize.type, known))


RULE = Rule("DC430", check)
