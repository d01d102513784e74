"""How a plan's mesh and layouts are said to people: the same words on the terminal, in `diff` and in the report."""

from __future__ import annotations

from typing import Any


def count_of(count: int, noun: str) -> str:
    """`1 rank`, `4 ranks`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def mesh_text(mesh: dict[str, int]) -> str:
    """`data 2 x tensor 4`."""
    return " x ".join(f"{axis} {degree}" for axis, degree in mesh.items()) or "one process"


def layout_text(layout: dict[str, Any]) -> str:
    """`tensor 4 (builtin plan)`, `ulysses 4, uneven`, `blocks on devices 0, 1`; what is not known here by its kind."""
    if "offload" in layout:
        place = layout_text({key: value for key, value in layout.items() if key != "offload"})
        return f"{place}, while it is called; rests on the host"
    match layout:
        case {"kind": "tensor", "degree": degree, "plan": plan}:
            return f"tensor {degree} ({plan} plan)"
        case {"kind": "context", "ring": ring, "ulysses": ulysses, "uneven": uneven}:
            axes = {axis: degree for axis, degree in (("ring", ring), ("ulysses", ulysses)) if degree > 1}
            return mesh_text(axes) + (", uneven" if uneven else "")
        case {"kind": "blocks", "devices": devices}:
            return f"blocks on devices {', '.join(str(device) for device in devices)}"
        case {"kind": "device", "device": device}:
            return f"whole on device {device}"
        case {"kind": "replicated"}:
            return "whole on every rank"
    rest = ", ".join(f"{key} {value}" for key, value in layout.items() if key != "kind")
    return f"{layout['kind']} ({rest})" if rest else str(layout["kind"])
