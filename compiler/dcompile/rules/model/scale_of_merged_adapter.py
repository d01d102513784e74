"""The call scales an adapter that is merged into the weights.

What it checks: `scale` in `joint_attention_kwargs`, `attention_kwargs` or `cross_attention_kwargs` of `run.args`,
beside an adapter with `fuse: true`, or one that `tensor` merges.

Why it matters: the scale acts on the layers of adapters, and a merged one has left none: it counts in full, and the
picture is not that of one device.

Example: `adapters: [{path: a.safetensors}]` with `tensor: 2` and `joint_attention_kwargs: {scale: 0.5}`

Use instead: `adapters: [{path: a.safetensors, weight: 0.5}]`

Source: diffusers 0.42.1, `utils/peft_utils.py:323` (`scale_lora_layers`), found by `tests/oracle`.
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.layout.splits import is_merged
from dcompile.rules.rule import Rule, Subject, error

_ARGUMENTS = ("joint_attention_kwargs", "attention_kwargs", "cross_attention_kwargs")


def check(subject: Subject) -> Iterator[Diagnostic]:
    merged = [one for one in subject.recipe.model.adapters if is_merged(one, subject.splits)]
    for name in _ARGUMENTS:
        given = subject.recipe.run.args.get(name)
        scale = given.get("scale") if isinstance(given, dict) else None
        if not merged or not isinstance(scale, (int, float)) or scale == 1:
            continue
        weight = f"{merged[0].weight * scale:.6g}"
        message = f"`scale: {scale}` cannot act on `{merged[0].path}`, which is merged into the weights"
        hint = f"leave `scale` out, and set `weight: {weight}` of the adapter"
        yield error("DC341", message, hint, ("run", "args", name))


RULE = Rule("DC341", check)
