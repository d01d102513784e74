"""The scheduler is no class of diffusers.

What it checks: `model.scheduler.class` against the classes of diffusers; that no further library is needed.

Why it matters: the name is looked up after every weight was loaded.

Example: `model: {scheduler: {class: EulerScheduler}}`

Use instead: `class: EulerDiscreteScheduler`

Source: diffusers 0.42.1, `schedulers/`.
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.core.meant import meant, nearest
from dcompile.facts.schedulers import known_schedulers, missing_libraries
from dcompile.rules.parallel.scheduler_misfit import fitting_schedulers
from dcompile.rules.rule import Rule, Subject, error, warning


def check(subject: Subject) -> Iterator[Diagnostic]:
    own = subject.recipe.model.scheduler
    if own is None or own.class_ is None or own.class_ in known_schedulers():
        return
    path = ("model", "scheduler", "class")
    missing = missing_libraries(own.class_)
    if missing:
        message = f"{own.class_} needs {', '.join(missing)}, which no extra of dcompile brings"
        yield warning("DC440", message, f"install it on every node: `pip install {' '.join(missing)}`", path)
        return
    fitting = fitting_schedulers(subject.facts.model)
    near, only = nearest(own.class_, fitting), meant(own.class_, known_schedulers())
    published = subject.facts.model.scheduler.get("class")
    hint = f"did you mean `{near}`?" if near else f"leave it out: the model's own is `{published}`"
    fix = only if only in fitting else None
    yield error("DC440", f"diffusers has no scheduler `{own.class_}`", hint, path, fix=fix)


RULE = Rule("DC440", check)
