"""Padded text under `context`, which the split gets wrong.

What it checks: pipelines that pass an attention mask (Qwen-Image where one call holds prompts of different length, LTX
with every call) against the mode of `context`.

Why it matters: the ring uses a rank's own mask for the keys of all ranks; uneven Ulysses takes the padding out of the
wrong end on three ranks and more: wrong pictures in silence. Ring with uneven lengths, and ring with Ulysses, fail at
the first step. LTX's mask keeps all heads, so Ulysses fails too.

Example: `run: {batch: 2}` with two prompts and `context: {ring: 2, uneven: true}` (Qwen-Image)

Use instead: `batch: 1`, so that no prompt is padded

Source: diffusers 0.42.1, `models/attention_dispatch.py:2427`, `:2658`, `:2792`, `:2847`, `transformer_ltx.py:75` (rows
CPA-13, CPA-14, CPB-08 to CPB-14, CPB-16; huggingface/diffusers#14316).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.layout.attention import ALWAYS_MASKED, text_mask
from dcompile.layout.splits import Split
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    model = subject.facts.model
    for name, split in subject.splits.components.items():
        facts = model.components[name]
        if split.context == 1 or name not in model.denoisers or not facts.context_plan:
            continue  # DC406 is the cause where the class has no plan
        if text_mask(subject.recipe, subject.facts, name) is None:
            continue
        if facts.class_name in ALWAYS_MASKED:
            message = f"{model.pipeline} passes a mask over its padded text, which no split of the sequence serves"
            yield error("DC416", message, "use `data` or `device_map`", split.where)
        elif split.uneven and not _is_right(split):
            message = "prompts of different length in one call are padded, and their mask is wrong under this split"
            yield error("DC416", message, f"use `batch: 1`{_also(split)}", subject.given("run", "batch"))


def _is_right(split: Split) -> bool:
    """Uneven Ulysses on two ranks: only the last rank can be short, where the padding is trimmed."""
    return split.ring == 1 and split.ulysses == 2


def _also(split: Split) -> str:
    return " or `{ulysses: 2, uneven: true}`" if split.context == 2 else ""


RULE = Rule("DC416", check)
