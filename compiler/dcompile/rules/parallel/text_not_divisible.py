"""The text tokens cannot be divided over the context group.

What it checks: the text length against ring x ulysses, for models whose plan splits the text. Where the length is the
prompt's own (Qwen-Image), it must be `uneven`, and every prompt must have a token for each rank: at least one a word,
at most one a byte, and five around it.

Why it matters: diffusers fails with an AssertionError at the first step; where the length is the prompt's own, for
some prompts only. An empty negative prompt is the shortest of all.

Example: `run: {args: {max_sequence_length: 7}}` with `ulysses: 2`

Use instead: `max_sequence_length: 8`

Source: diffusers 0.42.1, `hooks/context_parallel.py:274` and `:313`, `pipeline_qwenimage.py:202` (rows CPS-02, CPS-03,
CPS-10; huggingface/diffusers#12568).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.layout.degrees import UP_TO
from dcompile.layout.splits import Split
from dcompile.layout.tokens import divisors, is_countable, say_choices
from dcompile.rules.parallel.context_plan_unusable import is_refused
from dcompile.rules.rule import Rule, Subject, error, warning

AROUND_PROMPT = 5
"""Tokens that Qwen-Image's template leaves after the prompt: `<|im_end|>`, a line feed, `<|im_start|>`, `assistant`, a
line feed; those before it are cut off."""


def check(subject: Subject) -> Iterator[Diagnostic]:
    model, length = subject.facts.model, subject.settings.text_tokens
    if not is_countable(model, bool(subject.settings.picture_sizes)):
        return  # DC419 is the cause
    for name, split in subject.splits.components.items():
        if split.context == 1 or not model.components[name].context_splits_text or is_refused(subject, name):
            continue
        if model.family == "qwenimage":
            if split.uneven:
                yield from _short_prompts(subject, split)
            else:
                message = "the text of Qwen-Image has the prompt's own length, which the degree need not divide"
                yield error("DC403", message, _uneven(split), split.where)
        elif length and not split.uneven and length % split.context:
            message = f"{length} text tokens cannot be divided by {split.context}"
            written = "max_sequence_length" in subject.recipe.run.args
            path = ("run", "args", "max_sequence_length") if written else split.where
            yield error("DC403", message, _hint(subject, split, length), path)
        elif length and length < split.context:
            message = f"{length} text tokens are fewer than the {split.context} ranks that share them"
            yield error("DC403", message, "use a smaller degree or a longer text", split.where)


def _uneven(split: Split) -> str:
    if split.ring > 1 and split.ulysses > 1:
        return f"use `{{ulysses: {split.context}, uneven: true}}` or `{{ring: {split.context}, uneven: true}}`"
    return "set `uneven: true`"


def _hint(subject: Subject, split: Split, length: int) -> str:
    model = subject.facts.model
    fits = -(-length // split.context) * split.context
    if fits > model.tokens.get("text", fits):
        fits -= split.context
    ways = []
    if "max_sequence_length" in model.call_args and fits > 0:
        ways.append(f"use `max_sequence_length: {fits}`")
    else:
        degrees = [degree for degree in divisors(length, UP_TO) if degree > 1]
        ways += [f"use {say_choices(tuple(degrees))} ranks"] if degrees else []
    if 1 in (split.ring, split.ulysses) and length >= split.context:
        ways.append("set `uneven: true`")
    return ", or ".join(ways) or "leave `context` out"


def _short_prompts(subject: Subject, split: Split) -> Iterator[Diagnostic]:
    """The shortest text of the job, where it may have fewer tokens than there are ranks."""
    run = subject.recipe.run
    texts = {row.prompt for row in subject.facts.rows}
    if run.true_cfg is None or run.true_cfg > 1:
        given = {row.negative_prompt for row in subject.facts.rows}
        texts |= {"" if text is None else text for text in given if text is not None or run.true_cfg is not None}
    longest = subject.settings.text_tokens
    around = subject.settings.seen_tokens + AROUND_PROMPT
    bounds = {
        text: tuple(min(around + count, longest) for count in (len(text.split()), _bytes(text))) for text in texts
    }
    for which, found in ((1, error), (0, warning)):
        text = min(bounds, key=lambda one: (bounds[one][which], one), default="")
        least, most = bounds.get(text, (split.context, split.context))
        if bounds and bounds[text][which] < split.context:
            shown = f"`{text[:40]}`" if text else "an empty negative prompt"
            count = f"at most {most}" if which else f"{least} to {most}"
            message = f"{shown} has {count} text tokens, and {split.context} ranks share them"
            hint = f"use a longer text, or {(least, most)[which]} ranks or fewer"
            yield found("DC403", message, hint, split.where)
            return


def _bytes(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))


RULE = Rule("DC403", check)
