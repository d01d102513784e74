"""The model's files lack a weight that `tensor` would split.

What it checks: the headers of the component's weight files against the class's tensor plan.

Why it matters: diffusers refuses it after the process group has started; a layer whose weight is not split while its
neighbours are gives wrong numbers.

Example: `model: {path: my-flux}` whose files have no `attn.to_v`, with `tensor: 2`

Use instead: a folder that `save_pretrained` of the installed versions has written

Source: diffusers 0.42.1, `models/modeling_utils.py:1879` (row TPC-17).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.layout.shard import missing_weights
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    for name, split in subject.splits.components.items():
        facts = subject.facts.model.components[name]
        missing = missing_weights(facts) if split.tensor > 1 and "quantization_config" not in facts.config else ()
        if missing:
            message = f"the weights of `{name}` have no `{missing[0]}`, which `tensor` splits"
            yield error("DC446", message, "save the pipeline again with the versions that will run it", split.where)


RULE = Rule("DC446", check)
