"""A parsed file: plain Python values, and where each of them is written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from dcompile.core.diagnostics import START, Path, Span

OVERRIDE = "--set"


@dataclass(frozen=True)
class Suppression:
    """A comment that silences findings on a line: `# dcompile: ignore DC503 -- measured, it fits`."""

    file: str
    line: int
    codes: tuple[str, ...]
    span: Span


@dataclass(frozen=True)
class Document:
    """What a file says, and where.

    Attributes:
        value: mappings, lists, text, numbers, booleans and None.
        keys: the span of the key by which a value is reached.
        values: the span of each value.
        file: the file that was asked for.
        origins: the file a value comes from, or `--set`, where it is not `file`.
        texts: what was written, for plain scalars that are not text: `3.10`, `007`, the empty text of `key:`.
        faulty: values that could not be read; a diagnostic was given, and no other should follow.
        suppressions: the comments that silence findings, of this file and of those it leads to.
        chains: for each file that the first one leads to (by `extends` or `devices`), the names from the first to it.
    """

    value: Any
    keys: dict[Path, Span] = field(default_factory=dict)
    values: dict[Path, Span] = field(default_factory=dict)
    file: str = "<text>"
    origins: dict[Path, str] = field(default_factory=dict)
    texts: dict[Path, str] = field(default_factory=dict)
    faulty: frozenset[Path] = frozenset()
    chains: dict[str, tuple[str, ...]] = field(default_factory=dict)
    suppressions: tuple[Suppression, ...] = ()

    def position(self, path: Path, *, key: bool = False) -> tuple[str, Span]:
        """The file and span of a value (or of its key); of the nearest parent, where it is not written."""
        here = path
        while here:
            first, second = (self.keys, self.values) if key else (self.values, self.keys)
            span = first.get(here) or second.get(here)
            if span is not None:
                return self.origin(here), span
            here, key = here[:-1], True
        return self.origin(()), self.values.get((), START)

    def origin(self, path: Path) -> str:
        """The file a value comes from, or `--set`."""
        for length in range(len(path), -1, -1):
            if (found := self.origins.get(path[:length])) is not None:
                return found
        return self.file

    def is_faulty(self, path: Path) -> bool:
        """Whether a value, or what it lies in, could not be read."""
        return bool(self.faulty) and any(path[:length] in self.faulty for length in range(len(path) + 1))

    def without(self, path: Path) -> Document:
        """The same without the positions of a value and all that lies in it; `value` is left as it is."""

        def outside(item: Path) -> bool:
            return item[: len(path)] != path

        return replace(
            self,
            keys={p: s for p, s in self.keys.items() if outside(p)},
            values={p: s for p, s in self.values.items() if outside(p)},
            origins={p: s for p, s in self.origins.items() if outside(p)},
            texts={p: s for p, s in self.texts.items() if outside(p)},
            faulty=frozenset(p for p in self.faulty if outside(p)),
        )

    def under(self, path: Path) -> Document:
        """The same with every position below `path`, as if the document were written there."""
        return replace(
            self,
            keys={path + p: s for p, s in self.keys.items()},
            values={path + p: s for p, s in self.values.items()},
            origins={path + p: s for p, s in self.origins.items()},
            texts={path + p: s for p, s in self.texts.items()},
            faulty=frozenset(path + p for p in self.faulty),
        )


def say_chain(chain: tuple[str, ...]) -> str:
    """How one file leads to another, to stand behind a message: ` (r.yaml -> base.yaml)`; nothing for the recipe."""
    return f" ({' -> '.join(os.path.basename(file) for file in chain)})" if len(chain) > 1 else ""


def put(value: Any, path: Path, new: Any) -> Any:
    """A copy of `value` in which `new` stands at `path`; missing mappings on the way are made.

    Raises:
        LookupError: with the part of the path that leads nowhere.
    """
    if not path:
        return new
    head, rest = path[0], path[1:]
    if isinstance(value, list):
        if not isinstance(head, int) or not 0 <= head < len(value):
            raise LookupError(head)
        return [put(item, rest, new) if i == head else item for i, item in enumerate(value)]
    if value is None or isinstance(value, dict):
        if not isinstance(head, str):
            raise LookupError(head)
        return {**(value or {}), head: put((value or {}).get(head), rest, new)}
    raise LookupError(head)


def drop(value: Any, path: Path) -> Any:
    """A copy of `value` without what lies at `path`; `value` itself where nothing does."""
    head, rest = path[0], path[1:]
    if isinstance(value, list):
        if not rest:
            return [item for index, item in enumerate(value) if index != head]
        return [drop(item, rest) if index == head else item for index, item in enumerate(value)]
    if not isinstance(value, dict) or head not in value:
        return value
    if not rest:
        return {key: item for key, item in value.items() if key != head}
    return {**value, head: drop(value[head], rest)}


def get(value: Any, path: Path) -> Any:
    """What lies at `path`, or None."""
    for part in path:
        known = part in value if isinstance(value, dict) else isinstance(part, int) and isinstance(value, list)
        if not known or (isinstance(value, list) and not 0 <= int(part) < len(value)):
            return None
        value = value[part]
    return value


def items(value: Any, path: Path = ()) -> list[tuple[Path, Any]]:
    """Every value that is neither mapping nor list, with its path."""
    if isinstance(value, dict):
        return [found for key, inner in value.items() for found in items(inner, (*path, key))]
    if isinstance(value, list):
        return [found for index, inner in enumerate(value) for found in items(inner, (*path, index))]
    return [(path, value)]


def paths(value: Any, path: Path) -> Iterator[Path]:
    """The path of a value and of everything inside it."""
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from paths(inner, (*path, index))
