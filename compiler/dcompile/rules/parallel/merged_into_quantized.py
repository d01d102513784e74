"""An adapter is merged into quantized weights.

What it checks: an adapter with `fuse: true`, or one that is merged because another component is split by `tensor`,
where it changes a component with `quantize`.

Why it matters: the sum is rounded to the quantized type again, and much of what the adapter adds is lost; as layers
beside the quantized weights it keeps its own dtype.

Example: `adapters: [{path: a.safetensors, fuse: true}]` with `components: {transformer: {quantize: {method: torchao}}}`

Use instead: `fuse: false`

Source: our own, asked in `tests/oracle/test_quantize.py`; peft 0.21, `tuners/lora/torchao.py` (`merge`).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic, Path
from dcompile.layout.splits import is_merged
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    recipe = subject.recipe
    quantized = {name for name, own in recipe.components.items() if own is not None and own.quantize is not None}
    for i, adapter in enumerate(recipe.model.adapters):
        if not quantized or not is_merged(adapter, subject.splits):
            continue
        facts = subject.facts.adapters[i] if i < len(subject.facts.adapters) else None
        changed = [adapter.component or subject.facts.model.denoisers[0], *(facts.components if facts else ())]
        name = next((name for name in changed if name in quantized), None)
        if name is None:
            continue
        path: Path = subject.given("model", "adapters", i, "fuse")
        message = f"an adapter of `{name}` would be merged into its quantized weights, which rounds it away"
        yield error("DC436", message, "set `fuse: false`, or leave `quantize` out", path)


RULE = Rule("DC436", check)
