"""Two keys of `devices` name different devices.

What it checks: `devices.gpu`, `devices.gpus` and `devices.kind` against each other.

Why it matters: one of them would win in silence: with `kind: cpu` a job that was meant for a GPU runs on the host, with
the GPU's memory in its plan.

Example: `devices: {gpu: h100-sxm-80gb, kind: cpu}`

Use instead: `devices: {gpu: h100-sxm-80gb}`

Source: our own; public reports of jobs that stayed on the CPU without a word (vipshop/cache-dit#464).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.facts.registry import load_hardware
from dcompile.recipe.model import Devices
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    section = subject.recipe.devices
    if not isinstance(section, Devices):
        return
    if section.gpu is not None and section.gpus is not None:
        message = f"`gpu` is `{section.gpu}`, and `gpus` names {len(section.gpus)} devices"
        yield error("DC460", message, "keep one of the two", ("devices", "gpu"))
        return
    names = section.gpus or ((section.gpu,) if section.gpu is not None else ())
    kinds = {name: load_hardware(name).kind for name in names}
    if len(set(kinds.values())) > 1:
        said = ", ".join(f"`{name}` is {kind}" for name, kind in kinds.items())
        yield error(
            "DC460", f"one job needs devices of one kind: {said}", "name devices of one kind", ("devices", "gpus")
        )
    for name, kind in kinds.items():
        if section.kind not in (None, kind):
            message = f"`kind` is `{section.kind}`, and `{name}` is {kind}"
            hint = f"leave `kind` out, or leave `{'gpus' if section.gpus else 'gpu'}` out and give `memory`"
            yield error("DC460", message, hint, ("devices", "kind"))
            return


RULE = Rule("DC460", check)
