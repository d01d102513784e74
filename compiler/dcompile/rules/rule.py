"""What a rule is: a code and a pure function from a recipe and its facts to diagnostics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from pydantic import BaseModel

from dcompile.core.diagnostics import Diagnostic, Fix, Path, Severity
from dcompile.facts.resolve import Facts
from dcompile.layout.settings import Settings, settings_of
from dcompile.layout.splits import Split, Splits, split_components
from dcompile.memory.fit import Belongings, DeviceLoad, belongings, device_loads
from dcompile.recipe.model import Parallel, Recipe


@dataclass(frozen=True)
class Subject:
    """What rules look at: the recipe, its facts, and both with defaults filled in.

    Attributes:
        is_candidate: whether it is one of many plans that are compared, of which nobody reads what a finding proposes:
            rules leave out proposals that have to be searched for.
    """

    recipe: Recipe
    facts: Facts
    splits: Splits
    settings: Settings
    is_candidate: bool = False

    @property
    def parallel(self) -> Parallel:
        """The `parallel` section as a mapping."""
        return self.recipe.parallel if isinstance(self.recipe.parallel, Parallel) else Parallel()

    @cached_property
    def owned(self) -> Belongings:
        """What belongs on the devices of a rank; several rules ask for it."""
        return belongings(self.recipe, self.facts, self.splits, self.settings)

    @cached_property
    def loads(self) -> tuple[DeviceLoad, ...]:
        """The load of every device that may differ from the others."""
        return device_loads(self.recipe, self.facts, self.splits, alike_once=True, owned=self.owned)

    def split(self, name: str) -> Split:
        """How a component is split."""
        return self.splits.components[name]

    def given(self, *path: str | int) -> Path:
        """The longest start of a path that the recipe has set, so that a diagnostic points at something written."""
        node: object = self.recipe
        kept: list[str | int] = []
        for part in path:
            if isinstance(node, dict):
                node = node.get(part)
            elif isinstance(node, (tuple, list)):
                node = node[part] if isinstance(part, int) and part < len(node) else None
            else:
                written = isinstance(node, BaseModel) and part in node.model_fields_set
                node = getattr(node, str(part), None) if written else None
            if node is None:
                break
            kept.append(part)
        return tuple(kept)


def subject_of(recipe: Recipe, facts: Facts, *, is_candidate: bool = False) -> Subject:
    """A recipe and its facts, ready for the rules."""
    return Subject(recipe, facts, split_components(recipe, facts.model), settings_of(recipe, facts), is_candidate)


@dataclass(frozen=True)
class Rule:
    """One rule. Its module's docstring is its page."""

    code: str
    check: Callable[[Subject], Iterator[Diagnostic]]


def error(
    code: str, message: str, hint: str, path: Path, *, is_key: bool = False, fix: Fix | None = None
) -> Diagnostic:
    """A diagnostic that stops the compiler."""
    return Diagnostic(code, Severity.ERROR, message, hint, path, is_key=is_key, fix=fix)


def warning(
    code: str, message: str, hint: str, path: Path, *, is_key: bool = False, fix: Fix | None = None
) -> Diagnostic:
    """A diagnostic that `--strict` makes an error."""
    return Diagnostic(code, Severity.WARNING, message, hint, path, is_key=is_key, fix=fix)


def advice(
    code: str, message: str, hint: str, path: Path, *, is_key: bool = False, fix: Fix | None = None
) -> Diagnostic:
    """A diagnostic that never stops anything."""
    return Diagnostic(code, Severity.ADVICE, message, hint, path, is_key=is_key, fix=fix)
