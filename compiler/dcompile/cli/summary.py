"""The summary of a plan, one screen: a bar for each device with what lies there, the tight spot, a step, the estimate.

A bar is letters, one for each component, so that it says the same without colour. All bars have one scale; `|` is the
device's limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from textwrap import wrap
from typing import Any

from dcompile.core.safe_text import say
from dcompile.core.units import format_bytes, format_seconds
from dcompile.emit.devices import alike, component_order, fullest, fullest_phase, say_devices, used_bytes
from dcompile.emit.words import mesh_text

NARROWEST, WIDEST = 40, 100
MOST_IN_FULL = 4
"""Groups of unlike devices up to which each says in words what lies there; of more, only the fullest does."""
MOST_BARS = 16
_COLOURS = ("97;44", "30;46", "30;43", "97;45", "30;42", "97;41")
_GREY = "97;100"


@dataclass(frozen=True)
class Part:
    """Something that takes memory of a device: its sign in bars, how it is painted, what it is called, its bytes."""

    sign: str
    paint: str
    name: str
    held_bytes: int


def summary_lines(document: dict[str, Any], width: int = 80, colour: bool = False) -> list[str]:
    """The summary of a plan.

    Args:
        document: the content of `plan.json`.
        width: columns of the terminal.
        colour: whether bars are painted.
    """
    width = max(NARROWEST, min(width, WIDEST)) - 1
    lines = [say(f"{document['name']}: {document['strategy']} ({mesh_text(document['mesh'])})")]
    lines += _device_lines(document, width, colour)
    texts = [_tight_spot(document["devices"])]
    if ids := document["program"]["device_ids"]:
        texts.append(f"on the machine: {', '.join(f'device {i} is {number}' for i, number in enumerate(ids))}")
    texts += [
        f"a step: {moved['calls']} {collective} of {format_bytes(moved['bytes'])} in all, on each rank"
        for collective, moved in document["traffic"].items()
    ]
    resting = [name for name, one in sorted(document["components"].items()) if "offload" in one.get("layout", ())]
    if resting:
        sizes = (f"{say(name)} {format_bytes(document['components'][name]['weight_bytes'])}" for name in resting)
        texts.append(f"rests on the host, and comes when it is called: {', '.join(sizes)}")
    if "estimate" in document:
        texts.append(estimate_text(document["estimate"]))
    shares = [len(share) for share in document["program"]["run"]["shares"]]
    texts.append(f"pictures: {sum(shares)}" + (f" ({_say_shares(shares)})" if len(shares) > 1 else ""))
    for text in texts:
        lines += wrap(text, width, initial_indent="  ", subsequent_indent="    ")
    return lines


def estimate_text(estimate: dict[str, Any]) -> str:
    """What the job is estimated to take."""
    step, moved = estimate["step_seconds"], estimate["communication_seconds"]
    waits = f" ({100 * moved / step:.0f} % exchange)" if moved else ""
    copied = estimate.get("offload_seconds")
    copies = f"{format_seconds(copied)} to copy, each call; " if copied is not None else ""
    load = f" ({copies}{format_seconds(estimate['load_seconds'])} to load)"
    return f"estimate: {format_seconds(step)} a step{waits}, {format_seconds(estimate['total_seconds'])} in all{load}"


def _tight_spot(devices: Sequence[dict[str, Any]]) -> str:
    tight = fullest(devices)
    where = next(say_devices(numbers) for device, numbers in alike(devices) if device["device"] == tight["device"])
    parts = {name: part["weight_bytes"] for name, part in tight["components"].items()}
    parts["activations"] = tight["activation_bytes"]
    what = f"largest part {say(max(parts, key=lambda name: parts[name]))}"
    where += f" in {fullest_phase(tight)}"
    if tight["memory_bytes"] is None:
        return f"fullest: {where}, {format_bytes(used_bytes(tight))}, its limit is not known; {what}"
    free = tight["free_bytes"]
    room = f"{format_bytes(free)} free" if free >= 0 else f"{format_bytes(-free)} over, within the estimate's margin"
    return f"tight spot: {where}, {room}; {what}"


def _signs(document: dict[str, Any]) -> dict[str, str]:
    """A sign for each component: a digit that its name ends in, else a letter of its name that is free."""
    signs: dict[str, str] = {}
    for name in component_order(document):
        wanted = [name[-1]] if re.search(r"_\d\Z", name) else []
        wanted += [letter for letter in name.upper() if letter.isascii() and letter.isalpha()]
        signs[name] = next((sign for sign in wanted if sign not in signs.values()), "?")
    return signs


def _say_shares(shares: Sequence[int]) -> str:
    """`3, 2, 2` of few replicas, `2 on each of 256` of many that are alike."""
    if len(shares) <= MOST_BARS:
        return ", ".join(map(str, shares))
    runs = [(share, len(list(alike_ones))) for share, alike_ones in groupby(shares)]
    return ", ".join(f"{share} on each of {count}" if count > 1 else f"{share} on one" for share, count in runs)


def _parts(device: dict[str, Any], signs: dict[str, str]) -> list[Part]:
    paints = {name: _COLOURS[at % len(_COLOURS)] for at, name in enumerate(signs)}
    held = sorted(
        ((name, part["weight_bytes"]) for name, part in device["components"].items()), key=lambda item: -item[1]
    )
    parts = [Part(signs[name], paints[name], say(name), size) for name, size in held]
    parts.append(Part("~", _GREY, "activations (estimate)", device["activation_bytes"]))
    parts.append(Part("=", _GREY, "reserve", device["reserve_bytes"]))
    return [part for part in parts if part.held_bytes]


def _device_lines(document: dict[str, Any], width: int, colour: bool) -> Iterator[str]:
    groups = alike(document["devices"])
    tight = fullest(document["devices"])["device"]
    signs = _signs(document)
    full_scale = max(max(used_bytes(device), device["memory_bytes"] or 0) for device, _ in groups) or 1
    shown = groups
    if len(groups) > MOST_BARS:
        by_fullness = sorted(groups, key=lambda group: -used_bytes(group[0]) / (group[0]["memory_bytes"] or 1))
        shown = sorted(by_fullness[:MOST_BARS], key=lambda group: group[1])
    for device, numbers in shown:
        parts = _parts(device, signs)
        yield from wrap(
            f"{say_devices(numbers)}: {_fullness(device)}", width, initial_indent="  ", subsequent_indent="    "
        )
        yield "    " + _bar(parts, device["memory_bytes"], full_scale, width - 6, colour)
        if len(groups) <= MOST_IN_FULL or device["device"] == tight:
            yield from _legend(parts, width, colour)
    hidden = sum(len(numbers) for group in groups if group not in shown for numbers in group[1:])
    if hidden:
        yield f"  and {hidden} more devices, none of them fuller"


def _fullness(device: dict[str, Any]) -> str:
    used, memory = used_bytes(device), device["memory_bytes"]
    return format_bytes(used) + (f" of {format_bytes(memory)}, {100 * used / memory:.0f} % full" if memory else "")


def _bar(parts: Sequence[Part], memory_bytes: int | None, full_scale: int, cells: int, colour: bool) -> str:
    """Signs in proportion, dots for what is free, and `|` where the device's memory ends."""
    held, signs = 0, []
    for part in parts:
        begin = round(cells * held / full_scale)
        held += part.held_bytes
        signs += [_painted(part.sign, part.paint, colour)] * (round(cells * held / full_scale) - begin)
    if memory_bytes is None:
        return "".join(["|", *signs])
    limit = round(cells * memory_bytes / full_scale)
    signs += ["."] * (limit - len(signs))
    return "".join(["|", *signs[:limit], "|", *signs[limit:]])


def _legend(parts: Sequence[Part], width: int, colour: bool) -> Iterator[str]:
    """What the signs of a bar stand for, in as many columns as there is room for."""
    names = max((len(part.name) for part in parts), default=0)
    entries = [
        f"{_painted(part.sign, part.paint, colour)} {part.name:<{names}} {format_bytes(part.held_bytes):>11}"
        for part in parts
    ]
    each = max(1, (width - 2) // (names + 16))
    rows = -(-len(entries) // each)
    for row in range(rows):
        yield "    " + "   ".join(entries[row::rows])


def _painted(sign: str, paint: str, colour: bool) -> str:
    return f"\x1b[{paint}m{sign}\x1b[0m" if colour else sign
