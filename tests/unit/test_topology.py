"""`nvidia-smi topo -m` of several kinds of machines, and the link of the tables that stands for each."""

from __future__ import annotations

import pytest
from dcompile.estimate.links import known_links
from dcompile.machine.topology import Topology, link_name, parse_topology

LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks

NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_1
"""


def matrix(rows: list[list[str]], header: list[str], tail: list[list[str]], escape: bool = False) -> str:
    """A table as the tool prints it: columns parted by tabs, the header underlined in newer drivers."""
    first = "\t" + "\t".join(header)
    if escape:
        first = f"\t\x1b[4m{header[0]}\t" + "\t".join(header[1:]) + "\x1b[0m"
    body = [f"{header[i]}\t" + "\t".join([*row, *tail[i]]) for i, row in enumerate(rows)]
    return "\n".join([first, *body]) + "\n" + LEGEND


def full(count: int, link: str) -> list[list[str]]:
    return [[" X " if i == j else link for j in range(count)] for i in range(count)]


def names(count: int, *more: str) -> list[str]:
    return [*(f"GPU{i}" for i in range(count)), *more]


HGX_H100 = (
    matrix(
        full(8, "NV18"),
        names(8, "NIC0", "NIC1", "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"),
        [["PIX", "SYS", "0-47,96-143", "0", "N/A"]] * 4 + [["SYS", "PIX", "48-95,144-191", "1", "N/A"]] * 4,
        escape=True,
    )
    + "NIC0\tPIX\tNODE\tNODE\tNODE\tSYS\tSYS\tSYS\tSYS\t X \tSYS\n"
)
DGX_A100 = matrix(
    full(8, "NV12"),
    names(8, "mlx5_0", "mlx5_1", "CPU Affinity", "NUMA Affinity"),
    [["PXB", "SYS", "48-63,176-191", "3"]] * 8,
)
# Two sockets, four cards behind two switches of each.
EIGHT_PCIE = """\
\tGPU0\tGPU1\tGPU2\tGPU3\tGPU4\tGPU5\tGPU6\tGPU7\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tPIX\tNODE\tNODE\tSYS\tSYS\tSYS\tSYS\t0-31,64-95\t0\t\tN/A
GPU1\tPIX\t X \tNODE\tNODE\tSYS\tSYS\tSYS\tSYS\t0-31,64-95\t0\t\tN/A
GPU2\tNODE\tNODE\t X \tPIX\tSYS\tSYS\tSYS\tSYS\t0-31,64-95\t0\t\tN/A
GPU3\tNODE\tNODE\tPIX\t X \tSYS\tSYS\tSYS\tSYS\t0-31,64-95\t0\t\tN/A
GPU4\tSYS\tSYS\tSYS\tSYS\t X \tPIX\tNODE\tNODE\t32-63,96-127\t1\t\tN/A
GPU5\tSYS\tSYS\tSYS\tSYS\tPIX\t X \tNODE\tNODE\t32-63,96-127\t1\t\tN/A
GPU6\tSYS\tSYS\tSYS\tSYS\tNODE\tNODE\t X \tPIX\t32-63,96-127\t1\t\tN/A
GPU7\tSYS\tSYS\tSYS\tSYS\tNODE\tNODE\tPIX\t X \t32-63,96-127\t1\t\tN/A
"""
# Four A6000, a bridge on each pair; copied from a terminal, so with spaces.
BRIDGES = """\
        GPU0    GPU1    GPU2    GPU3    CPU Affinity    NUMA Affinity
GPU0     X      NV4     PXB     PXB     0-63            N/A
GPU1    NV4      X      PXB     PXB     0-63            N/A
GPU2    PXB     PXB      X      NV4     0-63            N/A
GPU3    PXB     PXB     NV4      X      0-63            N/A
"""
# A hybrid cube mesh of V100: not every pair has a link.
CUBE = """\
\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity
GPU0\t X \tNV1\tNV2\tSYS\t0-19,40-59
GPU1\tNV1\t X \tNV1\tNV2\t0-19,40-59
GPU2\tNV2\tNV1\t X \tNV1\t20-39,60-79
GPU3\tSYS\tNV2\tNV1\t X \t20-39,60-79
"""
WORKSTATION = """\
\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tPHB\t0-31\t0\t\tN/A
GPU1\tPHB\t X \t0-31\t0\t\tN/A
"""
OLD_DRIVER = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tSOC\t0-7\nGPU1\tSOC\t X \t8-15\n"
ONE = "\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t0-15\t0\t\tN/A\n" + LEGEND


@pytest.mark.parametrize(
    ("text", "count", "kinds"),
    [
        (HGX_H100, 8, ("NV18",)),
        (DGX_A100, 8, ("NV12",)),
        (EIGHT_PCIE, 8, ("PIX", "NODE", "SYS")),
        (BRIDGES, 4, ("NV4", "PXB")),
        (CUBE, 4, ("NV2", "NV1", "SYS")),
        (WORKSTATION, 2, ("PHB",)),
        (OLD_DRIVER, 2, ("SYS",)),
        (ONE, 1, ()),
    ],
    ids=["hgx-h100", "dgx-a100", "eight-pcie", "bridges", "cube", "workstation", "old-driver", "one"],
)
def test_the_matrix_of_every_kind_of_machine_is_read(text: str, count: int, kinds: tuple[str, ...]) -> None:
    found = parse_topology(text)
    assert found is not None
    assert len(found.between) == count
    assert found.kinds == kinds
    assert found.slowest == (kinds[-1] if kinds else None)
    for i, row in enumerate(found.between):
        assert row[i] == "X"
        assert [other[i] for other in found.between] == list(row)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n",
        "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPHB\t0-7\n",
        "\tGPU0\tGPU1\nGPU0\t X \tERR\nGPU1\tERR\t X \n",
        LEGEND,
    ],
)
def test_what_is_no_whole_matrix_is_none(text: str) -> None:
    assert parse_topology(text) is None


def test_the_devices_that_a_process_sees_are_taken_in_their_order() -> None:
    found = parse_topology(EIGHT_PCIE)
    assert found is not None
    assert found.of([4, 5]) == Topology((("X", "PIX"), ("PIX", "X")))
    assert found.of([1, 4, 0]).between[0] == ("X", "SYS", "PIX")
    assert found.of([3]).slowest is None


@pytest.mark.parametrize(
    ("text", "major", "generation", "peer", "link"),
    [
        (HGX_H100, 9, 5, True, "nvlink4"),
        (DGX_A100, 8, 4, True, "nvlink3"),
        (DGX_A100.replace("NV12", "NV18"), 10, 5, True, "nvlink5"),
        (EIGHT_PCIE, 8, 4, False, "pcie4"),
        (EIGHT_PCIE, 8, 4, True, "pcie4-peer"),
        (BRIDGES, 8, 4, True, "pcie4-peer"),  # two pairs are no group of four
        (CUBE, 7, 3, True, "pcie3"),
        (WORKSTATION, 8, 4, False, "pcie4"),
        (WORKSTATION, 12, 5, True, "pcie5"),
        (WORKSTATION, 12, 5, False, "pcie4"),  # without peer access no generation has been measured above it
        (WORKSTATION, 8, None, False, "pcie"),
        (CUBE.replace("SYS", "NV1"), 7, 3, True, "nvlink"),
        (ONE, 9, 5, False, None),
    ],
)
def test_the_link_is_that_of_the_two_that_are_furthest_apart(
    text: str, major: int, generation: int | None, peer: bool, link: str | None
) -> None:
    found = link_name(parse_topology(text), major, generation, peer)
    assert found == link
    assert found is None or found in known_links()


def test_without_the_tool_there_is_no_link() -> None:
    assert link_name(None, 9, 5, True) is None
