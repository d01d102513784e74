"""The text tokens cannot be divided over the context group.

What it checks: the text length against ring x ulysses, for models whose plan splits the text.

Why it matters: diffusers fails with an AssertionError at the first step; where the length is the prompt's own
(Qwen-Image), for some prompts only.

Example: `run: {args: {max_sequence_length: 7}}` with `ulysses: 2`

Use instead: `max_sequence_length: 8`

Source: diffusers 0.42.1, `hooks/context_parallel.py:274`, `pipeline_qwenimage.py:202` (rules.md CPS-02, CPS-03,
CPS-10).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    family, length = subject.facts.model.family, subject.settings.text_tokens
    for name, split in subject.splits.components.items():
        if split.context == 1 or not subject.facts.model.components[name].context_splits_text:
            continue
        if family == "qwenimage":
            if not split.uneven:
                message = "the text of Qwen-Image has the prompt's own length, which the degree need not divide"
                yield error("DC403", message, "set `uneven: true`", split.where)
        elif length and not split.uneven and length % split.context:
            fits = -(-length // split.context) * split.context
            if fits > subject.facts.model.tokens.get("text", fits):
                fits -= split.context
            message = f"{length} text tokens cannot be divided by {split.context}"
            hint = f"use `max_sequence_length: {fits}`, or set `uneven: true`"
            written = "max_sequence_length" in subject.recipe.run.args
            yield error("DC403", message, hint, ("run", "args", "max_sequence_length") if written else split.where)
        elif length and length < split.context:
            message = f"{length} text tokens are fewer than the {split.context} ranks that share them"
            yield error("DC403", message, "use a smaller degree or a longer text", split.where)


RULE = Rule("DC403", check)
