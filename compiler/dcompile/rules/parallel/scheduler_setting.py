"""A setting of the scheduler is unknown or has a value that the class does not take.

What it checks: keys of `model.scheduler` against the arguments of the class: names, types, texts, and settings of which
only one may be on.

Why it matters: diffusers ignores a name that it does not know, and the pictures are those of the default.

Example: `model: {scheduler: {shfit: 5.0}}`

Use instead: `model: {scheduler: {shift: 5.0}}`

Source: diffusers 0.42.1, `configuration_utils.py` (`extract_init_dict`) and the classes' `__init__`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dcompile.core.diagnostics import Diagnostic, Fix, Remove
from dcompile.core.meant import meant, nearest
from dcompile.facts.schedulers import SchedulerFacts, effective_settings, scheduler_facts
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    own = subject.recipe.model.scheduler
    if own is None:
        return
    name = own.class_ or str(subject.facts.model.scheduler.get("class", ""))
    facts, given = scheduler_facts(name), own.model_extra or {}
    if facts is None:
        return  # DC440 is the cause, or the model has a scheduler of its own making
    for key, value in given.items():
        fault = _fault(name, facts, key, value)
        if fault is not None:
            message, hint, fix = fault
            is_key = key not in facts.arguments
            fix = None if is_key and fix in given else fix
            yield error("DC441", message, hint, ("model", "scheduler", key), is_key=is_key, fix=fix)
    settings = effective_settings(facts, subject.facts.model, given)
    for group in facts.one_of:
        on = [key for key in group if settings.get(key) is True]
        written = [key for key in on if key in given]
        if len(on) > 1 and written:
            message = f"{name} takes one of {' and '.join(f'`{key}`' for key in on)}, not both"
            other = next(key for key in on if key != written[-1])
            hint = f"leave it out, or set `{other}: false`"
            yield error("DC441", message, hint, ("model", "scheduler", written[-1]))


def _fault(name: str, facts: SchedulerFacts, key: str, value: Any) -> tuple[str, str, Fix | None] | None:
    """Message, hint and edit where one setting is wrong."""
    if key not in facts.arguments:
        near = nearest(key, facts.arguments)
        hint = f"did you mean `{near}`?" if near else f"it takes {', '.join(sorted(facts.arguments))}"
        return f"{name} has no setting `{key}`, and would ignore it", hint, meant(key, facts.arguments)
    default = facts.arguments[key]
    if value is None and default is not None:
        return f"`{key}` of {name} takes no `null`", f"leave it out; it is {_text(default)} then", Remove()
    texts = facts.choices.get(key)
    if texts and value is not None and value not in texts:
        return f"`{key}` of {name} cannot be {_text(value)}", f"use {_any(texts)}", meant(str(value), texts)
    if not _is_like(value, default):
        message = f"`{key}` of {name} is {_kind(default)}, and {_text(value)} is none"
        return message, f"its default is {_text(default)}", None
    return None


def _is_like(value: Any, default: Any) -> bool:
    if default is None or value is None:
        return True
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(default, bool) and isinstance(value, bool)
    if isinstance(default, float):
        return isinstance(value, (int, float))
    return isinstance(value, list if isinstance(default, list) else type(default))


def _kind(default: Any) -> str:
    kinds = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", list: "a list"}
    return kinds[type(default)]


def _text(value: Any) -> str:
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _any(texts: list[str]) -> str:
    quoted = [f"`{text}`" for text in texts]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"


RULE = Rule("DC441", check)
