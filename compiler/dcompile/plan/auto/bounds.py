"""What `parallel: auto` must keep (`fixed`) and must not use (`forbid`).

Emits: DC490 where a bound is no key or no kind, DC491 where a key stands beside `auto`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from dcompile.core.diagnostics import Diagnostic, Path, Severity
from dcompile.core.meant import meant, nearest
from dcompile.recipe.model import Parallel, Recipe

KINDS = ("data", "device_map", "context", "ulysses", "ring", "uneven", "tensor", "cfg", "shard", "offload")
"""What `forbid` may name. `cfg` and `shard` are in no candidate yet: forbidding them changes nothing."""
FIXED = tuple(name for name in Parallel.model_fields if name != "auto")
AT: Path = ("parallel", "auto")


@dataclass(frozen=True)
class Bounds:
    """Attributes:
    fixed: the keys of `parallel` that every candidate has.
    forbid: the kinds that none uses.
    """

    fixed: Parallel
    forbid: frozenset[str]

    @property
    def may_offload(self) -> bool:
        """Whether components may be offloaded that the bounds do not name."""
        return "offload" not in self.forbid


def asks_auto(recipe: Recipe) -> bool:
    """Whether the compiler is to choose the plan."""
    return recipe.parallel == "auto" or (isinstance(recipe.parallel, Parallel) and recipe.parallel.auto is not None)


def bounds_of(recipe: Recipe) -> tuple[Bounds | None, tuple[Diagnostic, ...]]:
    """The bounds of a recipe that asks for `auto`, or what is wrong with them."""
    if not isinstance(recipe.parallel, Parallel) or recipe.parallel.auto is None:
        return Bounds(Parallel(), frozenset()), ()
    found = tuple(_faults(recipe.parallel))
    if found:
        return None, found
    auto = recipe.parallel.auto
    return Bounds(Parallel.model_validate(auto.fixed), frozenset(auto.forbid)), ()


def _faults(parallel: Parallel) -> Iterator[Diagnostic]:
    auto = parallel.auto
    if auto is None:
        return
    for name in FIXED:
        if name in parallel.model_fields_set:
            hint = f"write `auto: {{fixed: {{{name}: ...}}}}`"
            yield Diagnostic("DC491", Severity.ERROR, f"`{name}` stands beside `auto`", hint, ("parallel", name))
    known = True
    for name in auto.fixed:
        if name not in FIXED:
            known = False
            yield _unknown("key of `parallel`", name, FIXED, (*AT, "fixed", name))
    for index, kind in enumerate(auto.forbid):
        if kind not in KINDS:
            yield _unknown("kind of plan", kind, KINDS, (*AT, "forbid", index))
        elif kind in auto.fixed or (kind == "offload" and _offloads(auto.fixed)):
            message, hint = f"`{kind}` is fixed and forbidden", "keep one of the two"
            yield Diagnostic("DC490", Severity.ERROR, message, hint, (*AT, "forbid", index))
    try:
        Parallel.model_validate({name: value for name, value in auto.fixed.items() if name in FIXED})
    except ValidationError as error:
        if known:
            first = error.errors(include_url=False, include_input=False)[0]
            name = str(first["loc"][0])
            message = f"`fixed.{name}` is no value of `parallel.{name}`: {first['msg'].lower()}"
            hint = f"write it as under `parallel`, such as `{EXAMPLES.get(name, 'data: 2')}`"
            yield Diagnostic("DC490", Severity.ERROR, message, hint, (*AT, "fixed", name))


def _offloads(fixed: dict[str, Any]) -> bool:
    """Whether what is fixed offloads a component."""
    components = fixed.get("components")
    own = components.values() if isinstance(components, dict) else ()
    return any(isinstance(one, dict) and one.get("offload") is not None for one in own)


EXAMPLES = {
    "data": "data: 2",
    "device_map": "device_map: balanced",
    "context": "context: {ulysses: 2}",
    "tensor": "tensor: 2",
    "components": "components: {vae: {device: 1}}",
}


def _unknown(what: str, name: str, known: tuple[str, ...], path: Path) -> Diagnostic:
    near, is_key = nearest(name, known), path[-1] == name
    hint = f"did you mean `{near}`?" if near else f"use {', '.join(known)}"
    return Diagnostic(
        "DC490", Severity.ERROR, f"`{name}` is no {what}", hint, path, is_key=is_key, fix=meant(name, known)
    )
