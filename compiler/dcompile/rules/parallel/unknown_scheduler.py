"""The scheduler is no class of diffusers.

What it checks: `model.scheduler.class` against the classes of diffusers; that neither the class nor a setting that is
on (`use_beta_sigmas`) needs a further library.

Why it matters: the name is looked up after every weight was loaded.

Example: `model: {scheduler: {class: EulerScheduler}}`

Use instead: `class: EulerDiscreteScheduler`

Source: diffusers 0.42.1, `schedulers/`.
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.core.meant import meant, nearest
from dcompile.facts.schedulers import effective_settings, known_schedulers, missing_libraries, scheduler_facts
from dcompile.rules.parallel.scheduler_misfit import fitting_schedulers
from dcompile.rules.rule import Rule, Subject, error, warning


def check(subject: Subject) -> Iterator[Diagnostic]:
    own = subject.recipe.model.scheduler
    if own is None:
        return
    path = ("model", "scheduler", "class")
    name = own.class_ or str(subject.facts.model.scheduler.get("class", ""))
    facts, given = scheduler_facts(name), own.model_extra or {}
    settings = effective_settings(facts, subject.facts.model, given) if facts is not None else given
    missing = missing_libraries(name, settings)
    if missing:
        switch = next((setting for setting in given if facts is not None and setting in facts.needs_a_library), None)
        needs = f"{name} with `{switch}`" if switch else name
        message = f"{needs} needs {', '.join(missing)}, which no extra of dcompile brings"
        at = ("model", "scheduler", switch) if switch else path
        yield warning("DC440", message, f"install it on every node: `pip install {' '.join(missing)}`", at)
    if missing or own.class_ is None or facts is not None:
        return
    fitting = fitting_schedulers(subject.facts.model)
    near, only = nearest(own.class_, fitting), meant(own.class_, known_schedulers())
    published = subject.facts.model.scheduler.get("class")
    hint = f"did you mean `{near}`?" if near else f"leave it out: the model's own is `{published}`"
    fix = only if only in fitting else None
    yield error("DC440", f"diffusers has no scheduler `{own.class_}`", hint, path, fix=fix)


RULE = Rule("DC440", check)
