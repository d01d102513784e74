"""Devices as stacked bars on one scale: components, activations, reserve, what is free, and where the memory ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dcompile.core.units import format_bytes
from dcompile.emit.devices import alike, component_order, fullest, fullest_phase, say_devices, used_bytes
from dcompile.emit.report.markup import Markup, box, drawing, size, table, tag, words

COLOURS = 8
"""Colours of components in the style sheet."""
MOST_BARS = 24
WIDTH, LEFT, BAR, ROW = 920.0, 0.0, 20.0, 52.0
GAP = 1.0


def colours_of(document: dict[str, Any]) -> dict[str, str]:
    """The class of the style sheet that paints each component."""
    return {name: f"c{at % COLOURS}" for at, name in enumerate(component_order(document))}


def legend(document: dict[str, Any]) -> Markup:
    """What the colours of bars stand for."""
    entries = [*colours_of(document).items(), ("activations (estimate)", "act")]
    devices = document["devices"]
    entries += [("reserve", "res")] if any(device["reserve_bytes"] for device in devices) else []
    entries += [("free", "free")] if any(device["free_bytes"] for device in devices) else []
    items = (
        tag("li", tag("svg", tag("rect", width=14, height=14, class_=paint), class_="key", aria_hidden="true"), name)
        for name, paint in entries
    )
    return tag("ul", *items, class_="legend")


def parts_of(device: dict[str, Any], colours: dict[str, str]) -> list[tuple[str, str, int]]:
    """Name, class and bytes of what takes memory of a device, the largest component first."""
    held = [(name, colours[name], part["weight_bytes"]) for name, part in device["components"].items()]
    held.sort(key=lambda part: (-part[2], part[0]))
    held += [("activations (estimate)", "act", device["activation_bytes"]), ("reserve", "res", device["reserve_bytes"])]
    return [part for part in held if part[2]]


def devices_section(document: dict[str, Any]) -> Markup:
    """All devices of the plan; those that are alike are one bar, and of many kinds the fullest are drawn."""
    groups = alike(document["devices"])
    tight = fullest(document["devices"])
    shown, note = groups, Markup("")
    if len(groups) > MOST_BARS:
        fullest_first = sorted(groups, key=lambda group: -used_bytes(group[0]) / (group[0]["memory_bytes"] or 1))
        shown = sorted(fullest_first[:MOST_BARS], key=lambda group: group[1])
        rest = len(document["devices"]) - sum(len(numbers) for _, numbers in shown)
        note = tag("p", f"The {rest} other devices are less full; the table has them all.")
    scale = max(max(used_bytes(device), device["memory_bytes"] or 0) for device, _ in shown) or 1
    colours = colours_of(document)
    rows = [_row(at, device, numbers, colours, scale) for at, (device, numbers) in enumerate(shown)]
    label = "; ".join(f"{say_devices(numbers)}: {fullness(device)}" for device, numbers in shown)
    where = next(say_devices(numbers) for device, numbers in groups if tight["device"] in numbers)
    return tag(
        "section",
        tag("h2", "Devices"),
        tag("p", f"Tightest: {where}, {_room(tight)}. It is fullest in {fullest_phase(tight)}."),
        legend(document),
        drawing(label, WIDTH, ROW * len(rows), *rows),
        note,
        _exact(groups),
    )


def fullness(device: dict[str, Any]) -> str:
    """`21.90 GiB of 79.65 GiB, 27 % full`."""
    used, memory = used_bytes(device), device["memory_bytes"]
    if memory is None:
        return f"{format_bytes(used)}, limit not known"
    return f"{format_bytes(used)} of {format_bytes(memory)}, {100 * used / memory:.0f} % full"


def _room(device: dict[str, Any]) -> str:
    free = device["free_bytes"]
    if free is None:
        return f"{format_bytes(used_bytes(device))} in use; how much it has is not known"
    if free < 0:
        return f"{format_bytes(-free)} more than there is, which is within the margin of the estimate"
    return f"{format_bytes(free)} free"


def _row(at: int, device: dict[str, Any], numbers: tuple[int, ...], colours: dict[str, str], scale: int) -> Markup:
    top, per_byte = at * ROW, WIDTH / scale
    y = top + 22
    inside: list[Markup] = []
    memory = device["memory_bytes"]
    if memory is not None:
        free = f"free: {format_bytes(max(0, device['free_bytes']))}"
        inside.append(box(LEFT, y, memory * per_byte, BAR, free, class_="free"))
    at_byte = 0
    for name, paint, held in parts_of(device, colours):
        x, width = at_byte * per_byte, held * per_byte
        title = f"{name}: {format_bytes(held)} ({held:,} bytes)"
        inside.append(box(x, y, max(width - GAP, min(width, 1.0)), BAR, title, class_=paint))
        at_byte += held
    inside.append(words(0.0, top + 15, say_devices(numbers), class_="name"))
    inside.append(words(WIDTH, top + 15, fullness(device), class_="value", text_anchor="end"))
    if memory is not None:
        x = min(memory * per_byte, WIDTH - 1)
        title = tag("title", f"limit: {format_bytes(memory)}")
        inside.append(tag("line", title, x1=x, x2=x, y1=y - 4, y2=y + BAR + 4, class_="limit"))
    return tag("g", *inside)


def _exact(groups: list[tuple[dict[str, Any], tuple[int, ...]]]) -> Markup:
    """The numbers behind the bars."""
    head = ("device", "memory", "weights", "activations", "reserve", "free", "components")
    return tag("details", tag("summary", "The numbers"), table(head, (list(_cells(*group)) for group in groups)))


def _cells(device: dict[str, Any], numbers: tuple[int, ...]) -> Iterator[object]:
    yield say_devices(numbers)
    for key in ("memory_bytes", "weight_bytes", "activation_bytes", "reserve_bytes", "free_bytes"):
        yield size(device[key])
    held = sorted(device["components"].items(), key=lambda part: (-part[1]["weight_bytes"], part[0]))
    yield tag("ul", *(tag("li", f"{name} ", size(part["weight_bytes"])) for name, part in held), class_="plain")
