"""A component that bitsandbytes quantizes, or whose files hold quantized weights, is offloaded.

What it checks: `offload` of a component with `quantize: {method: bitsandbytes}`, or whose files hold quantized weights.
What torchao quantizes may be offloaded: its weights are moved as a whole, with their scales.

Why it matters: bitsandbytes quantizes a weight when it first comes to a device and keeps what it needs beside it; the
libraries leave 8-bit weights where they are unless newer versions meet, and how 4-bit ones rest in pinned memory could
not be tried here without an accelerator.

Example: `components: {text_encoder: {quantize: {method: bitsandbytes}}}` with
`parallel: {components: {text_encoder: {offload: model}}}`

Use instead: `quantize: {method: torchao}`, or one of the two

Source: diffusers 0.42.1, `pipelines/pipeline_utils.py:1244` (8-bit models get no hook before bitsandbytes 0.48) and
`quantizers/bitsandbytes/bnb_quantizer.py:84`; huggingface/blog@0b53cb1 `diffusers-quantization.md` offloads torchao's
(rows QNT-04, OFF-08).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.memory.offloading import can_rest
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    for name, own in subject.parallel.components.items():
        if own.offload is None or can_rest(subject.recipe, subject.facts.model, name):
            continue
        component = subject.recipe.components.get(name)
        by_recipe = component is not None and component.quantize is not None
        yield error(
            "DC435",
            f"`{name}` is quantized, and its weights stay on their device",
            "use `quantize: {method: torchao}`, or one of the two" if by_recipe else "use one of the two",
            ("parallel", "components", name, "offload"),
        )


RULE = Rule("DC435", check)
