"""HTML and SVG as text. What is not `Markup` is escaped, so that no name or prompt becomes part of the page."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from dcompile.core.safe_text import printable, redact
from dcompile.core.units import format_bytes

LEAST_WIDTH = 640.0
"""Pixels to which drawings shrink with the page: narrower ones could not be read, so they scroll."""
VOID = {"meta", "br", "wbr"}


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def text(value: object) -> Markup:
    """Anything as text of the page: without tokens and control characters, and escaped."""
    if isinstance(value, Markup):
        return value
    return Markup(escape(printable(redact(str(value))), quote=True))


def join(parts: Iterable[object]) -> Markup:
    """Parts one after the other."""
    return Markup("".join(text(part) for part in parts))


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """An element. `_` in an attribute's name is `-`, a `_` at its end is dropped; None leaves the attribute out."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(number(value) if isinstance(value, float) else value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in VOID:
        return Markup(f"<{name}{given}>")
    return Markup(f"<{name}{given}>{join(children)}</{name}>")


def dotted(name: str) -> Markup:
    """A dotted name that a line may break behind its dots."""
    first, *rest = name.split(".")
    return join([first, *(join([".", tag("wbr"), part]) for part in rest)])


def number(value: float) -> str:
    """A coordinate, to a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0")


def size(count: int | None) -> Markup:
    """Bytes for people, with the exact count for programs."""
    if count is None:
        return Markup("not known")
    said = format_bytes(abs(count))
    return tag("data", f"-{said}" if count < 0 else said, value=count)


def drawing(label: str, width: float, height: float, *children: object) -> Markup:
    """An SVG that scales with the page, read aloud as its label."""
    inner = (tag("title", label), *children)
    view = f"0 0 {number(width)} {number(height)}"
    style = f"min-width:{min(width, LEAST_WIDTH):.0f}px;max-width:{width:.0f}px"
    return tag("figure", tag("svg", *inner, viewBox=view, role="img", style=style))


def box(x: float, y: float, width: float, height: float, title: str = "", **attributes: object) -> Markup:
    """A rectangle that says what it is when the pointer rests on it."""
    inside = (tag("title", title),) if title else ()
    return tag("rect", *inside, x=x, y=y, width=max(width, 0.0), height=height, **attributes)


def words(x: float, y: float, content: object, **attributes: object) -> Markup:
    """Text in a drawing."""
    return tag("text", content, x=x, y=y, **attributes)


def table(head: Iterable[object], rows: Iterable[Iterable[object]], caption: str | None = None) -> Markup:
    """A table whose first column names the row."""
    names = [tag("th", cell, scope="col") for cell in head]
    body = [
        tag("tr", *(tag("td", cell) if at else tag("th", cell, scope="row") for at, cell in enumerate(row)))
        for row in rows
    ]
    inner = (tag("caption", caption),) if caption else ()
    made = tag(
        "table", *inner, tag("thead", tag("tr", *names)), tag("tbody", *body), class_="many" if len(names) > 3 else None
    )
    return tag("div", made, class_="wide")
