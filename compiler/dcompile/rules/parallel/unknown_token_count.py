"""How many tokens the denoiser sees is not known, so nobody can say whether they divide.

What it checks: `context` without `uneven`, with a pipeline whose tokens do not follow from height, width and frames:
those of input pictures count too, or the family has no formula here.

Why it matters: diffusers fails with an AssertionError at the first step, after every weight was loaded.

Example: `parallel: {context: {ulysses: 2}}` with QwenImageLayeredPipeline

Use instead: `uneven: true`

Source: diffusers 0.42.1, `pipeline_flux_prior_redux.py:488`, `transformer_minimax_h3.py:462` (rows CPS-05, CPS-12).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.layout.tokens import is_countable
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    model = subject.facts.model
    if is_countable(model, bool(subject.settings.picture_sizes)):
        return
    for name, split in subject.splits.components.items():
        if split.context > 1 and model.components[name].context_plan and not split.uneven:
            message = f"the token count of {model.pipeline} is not known, so it may not divide by {split.context}"
            hint = "set `uneven: true`" if 1 in (split.ring, split.ulysses) else "use `ulysses` with `uneven: true`"
            yield error("DC419", message, hint, split.where)


RULE = Rule("DC419", check)
