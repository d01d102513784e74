"""The class has a context plan, and this pipeline or configuration breaks it.

What it checks: pipelines that hand the denoiser what its plan does not split, and configurations that its plan does not
cover.

Why it matters: most fail at the first step, after every weight was loaded; Helios with an amplified history gives wrong
videos in silence.

Example: `parallel: {context: {ulysses: 2}}` with Flux2KleinKVPipeline, whose cached attention ignores the split

Use instead: `tensor`, where the class has a plan for it, else `data`

Source: diffusers 0.42.1, `transformer_flux2.py:461`, `transformer_flux.py:778`, `transformer_helios.py:131` and `:573`
(rows CPA-10, CPA-11, CPA-15, CPA-16).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.facts.types import ComponentFacts
from dcompile.layout.attention import ALWAYS_MASKED
from dcompile.rules.rule import Rule, Subject, error

PIPELINES = {
    "KleinKV": "caches keys and values of the whole sequence, past the split",
    "ControlNet": "adds the ControlNet's residuals, which keep their full length",
}
"""Parts of pipelines' names, and what they do that no plan covers."""

HELIOS_BLOCKS = 40
"""Blocks that the plan of Helios names one by one."""


def check(subject: Subject) -> Iterator[Diagnostic]:
    model = subject.facts.model
    for name, split in subject.splits.components.items():
        facts = model.components[name]
        if split.context == 1 or not facts.context_plan:
            continue
        why = _why(model.pipeline, facts)
        if why is not None:
            hint = "use `tensor` or `data`" if facts.tensor_plan else "use `data` or `device_map`"
            yield error("DC417", f"`context` cannot be used: {why}", hint, split.where)


def is_refused(subject: Subject, name: str) -> bool:
    """Whether no degree, size or mode of `context` serves a component, so that no other rule need judge them."""
    model = subject.facts.model
    facts = model.components[name]
    is_masked = name in model.denoisers and facts.class_name in ALWAYS_MASKED  # DC416
    return not facts.context_plan or is_masked or _why(model.pipeline, facts) is not None  # DC406, DC417


def _why(pipeline: str, facts: ComponentFacts) -> str | None:
    for part, what in PIPELINES.items():
        if part in pipeline:
            return f"{pipeline} {what}"
    if facts.class_name == "HeliosTransformer3DModel":
        blocks = facts.config.get("num_layers", HELIOS_BLOCKS)
        if blocks != HELIOS_BLOCKS:
            return f"the plan of {facts.class_name} is for {HELIOS_BLOCKS} blocks, and this model has {blocks}"
        if facts.config.get("is_amplify_history"):
            return "`is_amplify_history` takes the length of the history from a rank's own part"
    return None


RULE = Rule("DC417", check)
