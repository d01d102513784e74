"""What lies on a device while it encodes, denoises and decodes."""

from __future__ import annotations

from typing import Any

from dcompile.core.units import format_bytes
from dcompile.emit.devices import alike, fullest, say_devices
from dcompile.emit.report.devices import colours_of
from dcompile.emit.report.markup import Markup, box, drawing, number, size, table, tag, words

MOST = 4
"""Devices that are drawn; of more, the tightest alone is."""
LEFT, WIDTH, HEIGHT, TOP, BOTTOM = 84.0, 920.0, 190.0, 12.0, 40.0


def timeline_section(document: dict[str, Any]) -> Markup:
    """The memory of each kind of device over the phases of a job."""
    groups = alike(document["devices"])
    if len(groups) > MOST:
        tight = fullest(document["devices"])["device"]
        groups = [group for group in groups if tight in group[1]]
    charts = [part for device, numbers in groups for part in _chart(document, device, numbers)]
    text = "The fullest moment of each phase. The phases are not drawn to their length in time."
    return tag("section", tag("h2", "Memory over the job"), tag("p", text), *charts)


def _held(document: dict[str, Any], device: dict[str, Any], phase: dict[str, Any]) -> list[tuple[str, int]]:
    """The components that lie on a device in a phase, and their bytes, those that stay first.

    A plan says the bytes of a device's components at its fullest moment. Of those that come and go one at most is there
    at a time, so it takes what the others leave of the phase's bytes.
    """
    phases = [set(other["components"]) for other in device["phases"]]
    stays = set.intersection(*phases)
    known = {name: device["components"][name]["weight_bytes"] for name in stays}
    visitors = [name for name in phase["components"] if name not in stays]
    rest = phase["weight_bytes"] - sum(known.values())
    ordered = sorted(known.items(), key=lambda item: (-item[1], item[0]))
    return [*ordered, *((name, rest // len(visitors)) for name in visitors)]


def _chart(document: dict[str, Any], device: dict[str, Any], numbers: tuple[int, ...]) -> list[Markup]:
    colours, phases = colours_of(document), device["phases"]
    memory, reserve = device["memory_bytes"], device["reserve_bytes"]
    tallest = max([phase["weight_bytes"] + phase["activation_bytes"] + reserve for phase in phases] + [memory or 0])
    per_byte = HEIGHT / (tallest or 1)
    wide = (WIDTH - LEFT) / len(phases)
    floor = TOP + HEIGHT
    inside, rows = _scale(tallest, per_byte), []
    for at, phase in enumerate(phases):
        held = _held(document, device, phase)
        parts = [(f"{name}, weights", colours[name], count) for name, count in held]
        called = f" of {phase['called']}" if phase["called"] else ""
        parts.append((f"activations{called} (estimate)", "act", phase["activation_bytes"]))
        parts.append(("reserve", "res", reserve))
        x, below = LEFT + at * wide, 0
        for name, paint, count in parts:
            y, high = floor - (below + count) * per_byte, count * per_byte
            title = f"{phase['phase']}: {name}: {format_bytes(count)}"
            inside.append(box(x, y, wide - 2, max(high - 1, min(high, 1.0)), title, class_=paint))
            below += count
        middle = x + wide / 2
        inside.append(words(middle, floor + 18, phase["phase"], class_="name", text_anchor="middle"))
        inside.append(words(middle, floor + 35, format_bytes(below), class_="value", text_anchor="middle"))
        rows.append(
            (
                phase["phase"],
                phase["called"] or "nothing",
                size(phase["weight_bytes"]),
                size(phase["activation_bytes"]),
                ", ".join(name for name, _ in held),
            )
        )
    if memory is not None:
        y = floor - memory * per_byte
        title = tag("title", f"limit: {format_bytes(memory)}")
        inside.append(tag("line", title, x1=LEFT, x2=WIDTH, y1=y, y2=y, class_="limit"))
    label = f"{say_devices(numbers)}: memory over {', '.join(phase['phase'] for phase in phases)}"
    head = ("phase", "fullest while it calls", "weights", "activations", "there")
    return [
        tag("h3", say_devices(numbers)),
        drawing(label, WIDTH, floor + BOTTOM, *inside),
        tag("details", tag("summary", "The numbers"), table(head, rows)),
    ]


def _scale(tallest: int, per_byte: float) -> list[Markup]:
    """Lines at round sizes."""
    step = 1
    while tallest / step > 6:
        step *= 2
    found = []
    for at in range(int(tallest // step) + 1):
        y = TOP + HEIGHT - at * step * per_byte
        found.append(tag("line", x1=LEFT, x2=WIDTH, y1=y, y2=y, class_="grid"))
        said = format_bytes(at * step).replace(".00", "")
        found.append(words(LEFT - 8, float(number(y + 4)), said, class_="tick", text_anchor="end"))
    return found
