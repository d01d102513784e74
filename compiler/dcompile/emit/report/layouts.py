"""How components are laid out: matrices cut over ranks, blocks over devices, a sequence and the pictures over ranks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from dcompile.core.numbered import say_numbers
from dcompile.core.units import format_bytes
from dcompile.emit.drawn import Drawn, Layer, Stretch
from dcompile.emit.report.markup import Markup, box, dotted, drawing, size, table, tag, words
from dcompile.emit.words import layout_text

LONGEST, SHORTEST = 180.0, 50.0
"""Sides of a drawn matrix: the larger one, and the least that the other gets."""
STRIP, STRIP_WIDTH = 30.0, 920.0
LABELLED = 14.0
"""Width of a band from which on its rank is written into it."""
SHADES = 4
LONGEST_LINE = 26
"""Letters of a layout that is kept on one line."""


def layouts_section(document: dict[str, Any], drawn: Drawn) -> Markup:
    """Every component with its layout, and a drawing of each that is split."""
    rows = [
        (
            name,
            component["class"],
            _layout(component["layout"]),
            size(component["weight_bytes"]),
            component["because"],
        )
        for name, component in document["components"].items()
    ]
    head = ("component", "class", "layout", "weights of a rank", "because")
    pictures = [*_matrices(drawn.layers), *_sequences(drawn.stretches), *_blocks(document, drawn), *_shares(document)]
    return tag("section", tag("h2", "Layout"), table(head, rows), *pictures)


def _layout(layout: dict[str, Any]) -> Markup:
    """A layout on one line, where it is short."""
    said = layout_text(layout)
    return tag("span", said, class_="keep" if len(said) <= LONGEST_LINE else None)


def shade(at: int) -> str:
    """The class that paints a rank's band; neighbours differ."""
    return f"s{at % SHADES}"


def _matrices(layers: tuple[Layer, ...]) -> Iterator[Markup]:
    for name, group in groupby(layers, lambda layer: layer.component):
        ones = sorted(group, key=lambda layer: layer.dim is None)
        yield tag("h3", f"{name}: weight matrices over {ones[0].degree} ranks")
        yield tag("p", "The largest of each kind, outputs downwards and inputs across; the numbers are ranks.")
        yield tag("div", *(_matrix(layer) for layer in ones), class_="row")


def _matrix(layer: Layer) -> Markup:
    outputs, inputs = layer.shape
    scale = LONGEST / max(outputs, inputs)
    height, width = max(outputs * scale, SHORTEST), max(inputs * scale, SHORTEST)
    if layer.dim is None:
        cut = "whole on every rank"
        bands = [box(1.0, 1.0, width, height, f"{outputs} x {inputs}, whole on every rank", class_="whole")]
    else:
        kind = "columns (inputs)" if layer.dim == 1 else "rows (outputs)"
        fused = f", {len(layer.parts)} fused parts, each cut on its own" if len(layer.parts) > 1 else ""
        cut = f"{kind} cut in {layer.degree}{fused}"
        bands = list(_bands(layer, width, height))
    blocks = f", in {layer.repeat} blocks" if layer.repeat > 1 else ""
    caption = tag(
        "figcaption",
        tag("code", dotted(layer.name)),
        tag("br"),
        f"{outputs} x {inputs}{blocks}: {cut}",
        tag("br"),
        size(layer.held_bytes),
        " of ",
        size(layer.whole_bytes),
        " on a rank",
    )
    label = f"{layer.name}, {outputs} x {inputs}: {cut}"
    picture = tag(
        "svg",
        tag("title", label),
        *bands,
        viewBox=f"0 0 {width + 2:.0f} {height + 2:.0f}",
        width=f"{width + 2:.0f}",
        role="img",
    )
    return tag("figure", picture, caption, class_="matrix")


def _bands(layer: Layer, width: float, height: float) -> Iterator[Markup]:
    """A band for each rank of each part, with the rows or columns that it holds."""
    dim = layer.dim
    assert dim is not None
    length = layer.shape[dim]
    extent = width if dim else height
    begin = 0
    for at, part in enumerate(layer.parts):
        gap = 3.0 if at else 0.0
        for rank in range(layer.degree):
            each = -(-part // layer.degree)
            first, last = begin + rank * each, begin + min((rank + 1) * each, part)
            start, stop = 1 + first / length * extent, 1 + last / length * extent
            start += gap if rank == 0 else 0.0
            title = f"rank {rank}: {'inputs' if dim else 'outputs'} {first} to {last - 1}"
            where = (start, 1.0, stop - start - 1, height) if dim else (1.0, start, width, stop - start - 1)
            yield box(*where, title, class_=shade(rank))
            if stop - start >= LABELLED:
                middle = (start + stop) / 2
                x, y = (middle, 1 + height / 2 + 4) if dim else (1 + width / 2, middle + 4)
                yield words(x, y, rank, class_=f"on {shade(rank)}t", text_anchor="middle")
        begin += part


def _sequences(stretches: tuple[Stretch, ...]) -> Iterator[Markup]:
    for name, group in groupby(stretches, lambda stretch: stretch.component):
        ones = list(group)
        longest = max(stretch.tokens for stretch in ones)
        yield tag("h3", f"{name}: the sequence over {max(stretch.ranks for stretch in ones)} ranks")
        inside, label = [], []
        for at, stretch in enumerate(ones):
            said = _stretch_text(stretch)
            label.append(said)
            top = at * (STRIP + 30)
            inside.append(words(0.0, top + 14, said, class_="name"))
            ends = STRIP_WIDTH * stretch.tokens / longest
            inside += _strip(stretch.shares, top + 20, ends, "tokens", whole=stretch.ranks == 1)
        yield drawing("; ".join(label), STRIP_WIDTH, len(ones) * (STRIP + 30), *inside)


def _stretch_text(stretch: Stretch) -> str:
    count = f"{'up to ' if stretch.kind == 'text' else ''}{stretch.tokens} {stretch.kind} tokens"
    if stretch.ranks == 1:
        return f"{count}, whole on every rank"
    shares = stretch.shares
    least, most = min(shares), max(shares)
    return f"{count}, {most} on a rank" if least == most else f"{count}, {least} or {most} on a rank"


def _strip(
    shares: tuple[int, ...], top: float, width: float, noun: str, whole: bool = False, who: str = "rank"
) -> Iterator[Markup]:
    """A bar cut into shares, each with its number and what it holds."""
    total, begin = sum(shares) or 1, 0
    for at, share in enumerate(shares):
        x, wide = width * begin / total, width * share / total
        title = f"every rank: {share} {noun}" if whole else f"{who} {at}: {share} {noun}"
        yield box(x, top, max(wide - 1, min(wide, 1.0)), STRIP, title, class_="whole" if whole else shade(at))
        if wide >= LABELLED and not whole:
            yield words(x + wide / 2, top + STRIP / 2 + 5, at, class_=f"on {shade(at)}t", text_anchor="middle")
        begin += share


def _blocks(document: dict[str, Any], drawn: Drawn) -> Iterator[Markup]:
    """Components whose blocks lie on several devices: the chain in its order, each block as wide as it is large."""
    for name, component in document["program"]["components"].items():
        places = component.get("blocks")
        sizes = drawn.block_bytes.get(name, {})
        chain = [(block, places[block]) for block in sizes if block in places] if places else []
        if not chain:
            continue
        total = sum(sizes[block] for block, _ in chain) or 1
        yield tag("h3", f"{name}: its blocks over devices")
        inside, begin, said = [], 0, []
        for device, run in groupby(chain, lambda item: item[1]):
            held = [block for block, _ in run]
            said.append(f"device {device}: {held[0]} to {held[-1]}, {len(held)} blocks")
            inside.append(
                words(STRIP_WIDTH * begin / total, 16.0, f"device {device}: {len(held)} blocks", class_="name")
            )
            for block in held:
                x, wide = STRIP_WIDTH * begin / total, STRIP_WIDTH * sizes[block] / total
                title = f"{block} on device {device}: {format_bytes(sizes[block])}"
                inside.append(box(x, 24.0, max(wide - 1, min(wide, 1.0)), STRIP, title, class_=shade(device)))
                begin += sizes[block]
        yield drawing("; ".join(said), STRIP_WIDTH, STRIP + 26, *inside)
        rest: dict[int, list[str]] = {}
        for part, device in places.items():
            if part not in sizes:
                rest.setdefault(device, []).append(part or "the component itself")
        where = "; ".join(f"on device {device} {', '.join(parts)}" for device, parts in sorted(rest.items()))
        yield tag("p", f"What is no block: {where}." if where else "", class_="note")


def _shares(document: dict[str, Any]) -> Iterator[Markup]:
    """The pictures over the replicas."""
    shares = document["program"]["run"]["shares"]
    if len(shares) < 2:
        return
    counts = tuple(len(share) for share in shares)
    said = f"{sum(counts)} pictures over {len(counts)} replicas: {_counts(counts)}"
    yield tag("h3", "The pictures over the replicas")
    strip = _strip(counts, 2.0, STRIP_WIDTH, "pictures", who="replica")
    yield drawing(said, STRIP_WIDTH, STRIP + 4, *strip)
    yield tag("p", said, ".", class_="note")


def _counts(counts: tuple[int, ...]) -> str:
    if len(set(counts)) == 1:
        return f"{counts[0]} on each"
    runs = [(count, [at for at, _ in run]) for count, run in groupby(enumerate(counts), lambda pair: pair[1])]
    return ", ".join(f"{count} on replica{'s' if len(held) > 1 else ''} {say_numbers(held)}" for count, held in runs)
