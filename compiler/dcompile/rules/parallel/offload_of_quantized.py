"""A quantized component is offloaded.

What it checks: `offload` of a component with `quantize`, or whose files hold quantized weights.

Why it matters: a quantized weight is several tensors in one, which the exchange of weights between host and device does
not carry over; bitsandbytes refuses to leave the device.

Example: `components: {text_encoder: {quantize: {method: torchao}}}` with
`parallel: {components: {text_encoder: {offload: model}}}`

Use instead: one of the two

Source: our own; diffusers 0.42.1, `quantizers/bitsandbytes/bnb_quantizer.py:84` (rows QNT-04, OFF-08).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    for name, own in subject.parallel.components.items():
        facts = subject.facts.model.components.get(name)
        if own.offload is None or facts is None:
            continue
        component = subject.recipe.components.get(name)
        published = isinstance(facts.config.get("quantization_config"), dict)
        if published or (component is not None and component.quantize is not None):
            path = ("parallel", "components", name, "offload")
            yield error(
                "DC435",
                f"`{name}` is quantized, and quantized weights stay on their device",
                "use one of the two",
                path,
            )


RULE = Rule("DC435", check)
