"""How the GPUs of a node are linked: the matrix of `nvidia-smi topo -m`, and the link of the tables that stands for it.

The kinds, fastest first, as the tool's own legend has them: `NV#` a bonded set of # NVLinks; `PIX` at most one PCIe
bridge; `PXB` several bridges without the host's; `PHB` the host's bridge; `NODE` between host bridges of one NUMA node;
`SYS` between NUMA nodes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

ORDER = ("PIX", "PXB", "PHB", "NODE", "SYS")
"""Links over PCIe, fastest first."""
_ALIASES = {"SOC": "SYS"}
"""Names of older drivers."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_DEVICE = re.compile(r"GPU\d+\Z")
_LINK = re.compile(r"(X|NV\d+|PIX|PXB|PHB|NODE|SYS|SOC)\Z")

NVLINKS = {8: "nvlink3", 9: "nvlink4", 10: "nvlink5"}
"""The generation of NVLink by the major number of the compute capability: A100 8.0, H100 9.0, B200 10.0."""


@dataclass(frozen=True)
class Topology:
    """`between[i][j]` is how GPU i and GPU j are linked; `X` for itself."""

    between: tuple[tuple[str, ...], ...]

    def of(self, devices: Sequence[int]) -> Topology:
        """The same of some of the GPUs, in their order."""
        return Topology(tuple(tuple(self.between[i][j] for j in devices) for i in devices))

    @property
    def kinds(self) -> tuple[str, ...]:
        """Every kind of link between two GPUs, fastest first."""
        found = {link for i, row in enumerate(self.between) for j, link in enumerate(row) if i < j}
        return tuple(sorted(found, key=_slowness))

    @property
    def slowest(self) -> str | None:
        """The slowest link between two GPUs; None where there is only one."""
        return self.kinds[-1] if self.kinds else None


def _slowness(link: str) -> tuple[int, int]:
    return (0, -int(link[2:])) if link.startswith("NV") else (1, ORDER.index(link))


def parse_topology(text: str) -> Topology | None:
    """The matrix in the output of `nvidia-smi topo -m`; None where there is none in it.

    Columns of network adapters, affinities and the legend are passed over: GPUs come first in every driver's table.
    """
    lines = [_COLOUR.sub("", line).split() for line in text.splitlines()]
    header = next((tokens for tokens in lines if tokens and _DEVICE.match(tokens[0]) and "X" not in tokens), [])
    names = [token for token in header if _DEVICE.match(token)]
    rows: dict[str, tuple[str, ...]] = {}
    for tokens in lines:
        cells = tokens[1 : 1 + len(names)]
        if tokens and tokens[0] in names and len(cells) == len(names) and all(map(_LINK.match, cells)):
            rows[tokens[0]] = tuple(_ALIASES.get(cell, cell) for cell in cells)
    if not names or set(rows) != set(names):
        return None
    return Topology(tuple(rows[name] for name in names))


def link_name(
    topology: Topology | None, capability_major: int, pcie_generation: int | None, has_peer_access: bool
) -> str | None:
    """The link of the tables that a node's devices count as linked by: that of the two that are furthest apart.

    Args:
        topology: of the devices that take part.
        capability_major: the compute capability's first number.
        pcie_generation: of the slots; None where it is not known.
        has_peer_access: whether every device can read every other's memory.

    Returns:
        None where there is one device, or nothing is known about what links them.
    """
    slowest = topology.slowest if topology is not None else None
    if slowest is None:
        return None
    if slowest.startswith("NV"):
        return NVLINKS.get(capability_major, "nvlink")
    if pcie_generation is None:
        return "pcie"
    if pcie_generation <= 3:
        return "pcie3"
    if pcie_generation == 4:
        return "pcie4-peer" if has_peer_access else "pcie4"
    return "pcie5" if has_peer_access else "pcie4"
