"""The devices of this machine, as torch sees them, and its memory. Imports torch where it is installed."""

from __future__ import annotations

import importlib.util
import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dcompile.facts.registry import known_hardware, load_hardware, names_of_drivers
from dcompile.machine.topology import Topology, link_name, parse_topology

TOOL_SECONDS = 20
"""How long `nvidia-smi` may take to answer."""


@dataclass(frozen=True)
class Device:
    """One device. `memory_bytes` is what programs may have, 0 for a CPU; `uuid` is empty where it is not known."""

    name: str
    memory_bytes: int
    capability_major: int = 0
    uuid: str = ""


@dataclass(frozen=True)
class Machine:
    """Attributes:
    kind: `cuda`, `xpu` or `cpu`.
    devices: every device; one entry for a CPU.
    host_memory_bytes: of the host, or of the container that this runs in.
    """

    kind: str
    devices: tuple[Device, ...]
    host_memory_bytes: int | None

    @property
    def smallest_bytes(self) -> int:
        """Memory of the smallest device."""
        return min(device.memory_bytes for device in self.devices)


def look(kind: str | None = None) -> Machine:
    """The machine, with its accelerators; with its processor alone where there are none or `kind` asks for it.

    Raises:
        ValueError: where there is no device of the kind that is asked for.
    """
    for name in ("cuda", "xpu") if kind is None else (kind,):
        devices = _accelerators(name)
        if devices:
            return Machine(name, devices, host_memory_bytes())
    if kind not in (None, "cpu"):
        raise ValueError(f"torch finds no {kind} device on this machine")
    return Machine("cpu", (Device(processor_name(), 0),), host_memory_bytes())


def _accelerators(kind: str) -> tuple[Device, ...]:
    if kind == "cpu" or importlib.util.find_spec("torch") is None:
        return ()
    import torch

    library: Any = getattr(torch, kind)
    if not library.is_available():
        return ()
    found = []
    for index in range(library.device_count()):
        properties = library.get_device_properties(index)
        found.append(
            Device(
                name=str(properties.name),
                memory_bytes=int(properties.total_memory),
                capability_major=int(getattr(properties, "major", 0)),
                uuid=str(getattr(properties, "uuid", "")),
            )
        )
    return tuple(found)


def processor_name() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(iter(named), "") or platform.processor() or platform.machine()


def host_memory_bytes() -> int | None:
    """Memory of the host, or the less that a container's control group leaves; None where the system does not say."""
    try:
        sizes = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    except (AttributeError, ValueError, OSError):
        return None
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(limit).read_text(encoding="utf-8").strip()
        except OSError:
            continue
        if text.isdecimal():
            sizes.append(int(text))
    return min(sizes)


def table_name(device: Device) -> str | None:
    """The hardware table's name of a device, by what its driver calls it; None where the table does not have it."""
    name = names_of_drivers().get(device.name)
    if name is None or name not in known_hardware() or device.memory_bytes > load_hardware(name).memory_bytes:
        return None
    return name


def link_of(machine: Machine) -> tuple[str | None, Topology | None]:
    """The link of the tables that this machine's devices count as linked by, and how they are linked."""
    if machine.kind != "cuda" or len(machine.devices) < 2:
        return None, None
    topology = _topology(machine)
    generations = [int(text) for text in _ask("--query-gpu=pcie.link.gen.max").split() if text.isdecimal()]
    major = machine.devices[0].capability_major
    return link_name(topology, major, min(generations, default=None), _has_peer_access(len(machine.devices))), topology


def _topology(machine: Machine) -> Topology | None:
    """The matrix of the devices that torch sees, in torch's order."""
    whole = parse_topology(_ask("topo", "-m"))
    if whole is None:
        return None
    rows = [line.rpartition("GPU-")[2].strip() for line in _ask("--query-gpu=uuid").splitlines() if "GPU-" in line]
    here = [device.uuid.rpartition("GPU-")[2] for device in machine.devices]
    if len(rows) == len(whole.between) and all(uuid in rows for uuid in here):
        return whole.of([rows.index(uuid) for uuid in here])
    return whole if len(whole.between) == len(here) else None


def _ask(*arguments: str) -> str:
    """What `nvidia-smi` answers; nothing where it is not there or does not answer."""
    table = ["--format=csv,noheader"] if arguments[0].startswith("--query") else []
    try:
        done = subprocess.run(
            ["nvidia-smi", *arguments, *table], capture_output=True, text=True, timeout=TOOL_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _has_peer_access(count: int) -> bool:
    import torch

    pairs = ((a, b) for a in range(count) for b in range(count) if a != b)
    return all(torch.cuda.can_device_access_peer(a, b) for a, b in pairs)
