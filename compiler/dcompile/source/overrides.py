"""`--set run.seed=7`: values from the command line in place of those in the file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from dcompile.core.diagnostics import Diagnostic, Path, Span, dotted
from dcompile.source.document import OVERRIDE, Document, get, put
from dcompile.source.faults import fault
from dcompile.source.parse import parse

_PART = re.compile(r"([^.\[\]]+)((?:\[\d{1,6}\])*)\Z")


def parse_path(text: str, value: object = None) -> Path | None:
    """`a[0].b` or `a.0.b` as a path; digits count as an index where a list lies there."""
    path: Path = ()
    for part in text.strip().split("."):
        match = _PART.match(part)
        if match is None:
            return None
        name: str | int = match[1]
        if match[1].isdecimal() and len(match[1]) <= 6 and isinstance(get(value, path), list):
            name = int(match[1])
        path = (*path, name, *(int(index) for index in re.findall(r"\d+", match[2])))
    return path


def apply_overrides(document: Document, overrides: Sequence[str]) -> tuple[Document, tuple[Diagnostic, ...]]:
    """The document with each `path=value` applied in order; a value replaces what was there whole."""
    found: list[Diagnostic] = []
    for text in overrides:
        document = _apply(document, text, found)
    return document, tuple(found)


def _apply(document: Document, text: str, found: list[Diagnostic]) -> Document:
    name, equals, right = text.partition("=")
    whole = Span(1, 1, 1, len(text) + 1)
    path = parse_path(name, document.value) if equals else None
    if path is None:
        message = f"`{text}` sets nothing"
        found.append(fault("DC131", message, "write a path and a value: --set run.seed=7", whole, OVERRIDE))
        return document
    value, faults = parse(right, OVERRIDE, root=False)
    start = len(name) + 1
    if faults or value is None:
        for diagnostic in faults:
            span = diagnostic.span or whole
            if span.line == 1:
                span = replace(span, column=span.column + start, end_column=span.end_column + start)
            message, hint = f"{diagnostic.message} (in `--set {text}`)", diagnostic.hint
            if "in quotes" in hint:  # the shell takes one pair away
                hint += f", and all of it in the shell's: --set '{name}=\"...\"'"
            found.append(replace(diagnostic, span=span, path=path, message=message, hint=hint))
        return document
    try:
        changed = put(document.value, path, value.value)
    except LookupError as error:
        at = error.args[0]
        message = f"`--set {text}`: `{dotted(path)}` leads nowhere at `{at}`"
        hint = "an index must be one that the list has; a value that is no mapping is replaced whole"
        found.append(fault("DC132", message, hint, Span(1, 1, 1, start), OVERRIDE, path))
        return document
    outer = document.without(path)
    return replace(
        outer,
        value=changed,
        values={**outer.values, path: Span(1, start + 1, 1, max(len(text), start) + 1)},
        texts={**outer.texts, **value.under(path).texts},
        origins={**outer.origins, path: OVERRIDE},
    )
