"""The file that `dcompile probe` writes: a `devices` section that a recipe can name, with what was measured."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from dcompile.machine.devices import Machine, table_name
from dcompile.machine.topology import Topology

MIB = 2**20
HEAD = """\
# This machine, measured by `dcompile probe`: write `devices: {file}` in a recipe, or give `--devices {file}`.
"""


@dataclass(frozen=True)
class Found:
    """Everything that a probe found.

    Attributes:
        machine: its devices.
        versions: of what measured.
        link, topology: how devices are linked, where that is known.
        dtype: of the speeds.
        speeds: one for each device, or one for all, by a recipe's keys.
        collectives: entries of a recipe's `collectives`.
        missing: what could not be measured, as sentences.
    """

    machine: Machine
    versions: dict[str, str]
    link: str | None
    topology: Topology | None
    dtype: str
    speeds: tuple[dict[str, float], ...]
    collectives: tuple[dict[str, Any], ...]
    missing: tuple[str, ...] = field(default=())


def section_of(found: Found) -> dict[str, Any]:
    """The `devices` section, as plain data in the schema's order."""
    machine = found.machine
    section: dict[str, Any] = {}
    if machine.kind == "cpu":
        section["kind"] = "cpu"
    else:
        named = [table_name(device) for device in machine.devices]
        names = [name for name in named if name is not None]
        alike = len(set(names)) == 1
        if len(names) < len(named):
            section["kind"] = machine.kind
        elif alike:
            section["gpu"] = names[0]
        else:
            section["gpus"] = names
        sizes = [f"{device.memory_bytes // MIB}MiB" for device in machine.devices]
        section["memory"] = sizes[0] if len(set(sizes)) == 1 else sizes
        if alike or "kind" in section:
            section["per_node"] = len(machine.devices)
        if found.link is not None:
            section["link"] = found.link
    if machine.host_memory_bytes is not None:
        section["host_memory"] = f"{machine.host_memory_bytes // MIB}MiB"
    measured: dict[str, Any] = {"dtype": found.dtype}
    if speeds := speeds_of(found):
        measured["speeds"] = [{key: _short(value) for key, value in speed.items()} for speed in speeds]
    if found.collectives:
        measured["collectives"] = list(found.collectives)
    if len(measured) > 1:
        section["measured"] = measured
    return section


def speeds_of(found: Found) -> tuple[dict[str, float], ...]:
    """One entry for all devices, of each value the slowest, where they are of one name; else one for each."""
    if len({device.name for device in found.machine.devices}) > 1 or len(found.speeds) < 2:
        return found.speeds
    keys = [key for key in found.speeds[0] if all(key in speed for speed in found.speeds)]
    of_key = {key: [speed[key] for speed in found.speeds] for key in keys}
    return ({key: max(values) if "_seconds_" in key else min(values) for key, values in of_key.items()},)


def _short(value: float) -> float | int:
    """Four digits; whole where it is large."""
    rounded = float(f"{value:.4g}")
    return int(rounded) if rounded >= 1e4 else rounded


def document_of(found: Found) -> dict[str, Any]:
    """What `--format json` prints."""
    return {
        "devices": section_of(found),
        "names": [device.name for device in found.machine.devices],
        "topology": [list(row) for row in found.topology.between] if found.topology is not None else None,
        "versions": found.versions,
        "missing": list(found.missing),
    }


def file_text(found: Found, file: str) -> str:
    """The YAML file: comments say what the machine is, one line for each measured value."""
    lines = [HEAD.format(file=file).rstrip("\n")]
    names = [device.name for device in found.machine.devices]
    counted = ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names))
    versions = ", ".join(f"{name} {version}" for name, version in found.versions.items())
    lines.append(f"# {counted}; {versions}")
    if found.topology is not None:
        lines += [f"# GPU{i}: {' '.join(row)}" for i, row in enumerate(found.topology.between)]
    lines += [f"# {sentence}" for sentence in found.missing]
    for key, value in section_of(found).items():
        lines += _lines(key, value) if key == "measured" else [f"{key}: {_flow(value)}"]
    return "\n".join(lines) + "\n"


def _lines(key: str, measured: dict[str, Any]) -> list[str]:
    lines = [f"{key}:", f"  dtype: {measured['dtype']}"]
    for name in ("speeds", "collectives"):
        if name in measured:
            lines += [f"  {name}:", *(f"    - {_flow(entry)}" for entry in measured[name])]
    return lines


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, float):
        return f"{value:.10f}".rstrip("0") if value < 1 else json.dumps(value)
    return str(value)
