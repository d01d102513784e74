"""A component takes what another one made in another dtype.

What it checks: the dtypes of components between which the pipeline hands tensors over without a conversion.

Why it matters: the first step, or the decoder after the last one, fails with a message about matrices of different
dtypes, after every weight was loaded.

Example: `components: {text_encoder_2: {dtype: float32}}` with Flux in bfloat16

Use instead: one dtype for both

Source: diffusers 0.42.1, `pipeline_flux.py:386` and the `__call__` of each pipeline that `layout/dtypes.py` lists;
asked of each of them in `tests/oracle/test_components.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic, Path
from dcompile.layout.dtypes import HANDOVERS, Handover, joined, own_dtype
from dcompile.layout.settings import component_dtype
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    recipe, model = subject.recipe, subject.facts.model
    told: set[Path] = set()
    for handover in HANDOVERS.get(model.pipeline, ()):
        sources = tuple(name for name in handover.sources if name in subject.splits.components)
        target = handover.target
        if not sources or target not in subject.splits.components:
            continue
        kind = subject.facts.devices.kind
        given = joined(tuple(component_dtype(recipe, name, kind) for name in sources))
        wanted = component_dtype(recipe, target, kind)
        if given == wanted or (handover.upcasts and wanted == "float16" and _upcasts(subject, handover)):
            continue
        odd = next((name for name in (*sources, target) if own_dtype(recipe, name) is not None), target)
        path: Path = ("components", odd, "dtype")
        if path in told:
            continue
        told.add(path)
        names = " and ".join(f"`{name}`" for name in sources)
        message = f"{names} hands {given} to `{target}`, which is {wanted}, and {model.pipeline} does not convert it"
        other = given if odd == target else wanted
        yield error("DC340", message, f"use `dtype: {other}`, or one dtype for all of them", subject.given(*path))


def _upcasts(subject: Subject, handover: Handover) -> bool:
    return subject.facts.model.components[handover.target].config.get("force_upcast", True) is True


RULE = Rule("DC340", check)
