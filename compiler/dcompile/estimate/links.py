"""How long a collective takes: measured curves of bus bandwidth (`hardware/links.json`), interpolated in log size.

A curve belongs to a kind of link, an operation and a number of ranks. Between two sizes the logarithm of the time is
interpolated in the logarithm of the size (which keeps a larger message from being a shorter one, where the bandwidth
jumps); beyond the largest the bandwidth stays what it is there. Below the smallest size the time falls linearly to the
latency. A degree that was not measured takes the curve of the next larger one that was, for where a box has its seams
is not known; beyond the largest its. Ranks with others between them are no faster than as many neighbours as they are
wide, for the same reason. Bus factors as in NVIDIA/nccl-tests, `doc/PERFORMANCE.md`.

What a recipe says was measured on its machine (`devices.measured.collectives`) comes before the tables and is read the
same way; below its smallest size the time stays what it is there.

Ranks on several nodes: what crosses the network goes through every device's own adapter. A ring of all ranks enters and
leaves a node once for each adapter, so all-reduce and all-gather have as many at once as the node has ranks of the
group; in an all-to-all each rank sends what is for other nodes itself (rails as NCCL lays them, `doc/PERFORMANCE.md` of
NVIDIA/nccl-tests). The slower of both ways counts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from math import log2

from dcompile.core.units import parse_bandwidth
from dcompile.facts.links import known_links, known_node_links, link_table
from dcompile.facts.types import MeasuredCurves
from dcompile.layout.nodes import Group

MIB = 2**20
FACTORS = {"all_reduce": 2, "all_gather": 1, "all_to_all": 1}
"""Bus factor over (n - 1) / n."""


def is_link(name: str | None, known: Sequence[str]) -> bool:
    """Whether the speed of a link is known: one of the names, or a bandwidth such as `64GB/s`."""
    if name is None or name in known:
        return name is not None
    try:
        return parse_bandwidth(name) > 0
    except ValueError:
        return False


@dataclass(frozen=True)
class Network:
    """How the devices of a job are linked.

    Attributes:
        link: within a node, a name of `known_links`, or another where all that is asked for is in `measured`.
        node_link: between nodes, a name of `known_node_links`.
        measured: collectives within a node, as they were measured.
    """

    link: str
    node_link: str | None = None
    measured: MeasuredCurves = field(default_factory=dict)

    def knows(self, operation: str, group: Group) -> bool:
        """Whether the time of a collective of a group can be told."""
        within = operation in self.measured or is_link(self.link, known_links())
        return within and (group.here == group.ranks or is_link(self.node_link, known_node_links()))


def _between(x: float, xs: Sequence[float], ys: Sequence[float]) -> float:
    """Linear interpolation, constant beyond both ends."""
    if x <= xs[0]:
        return ys[0]
    if x >= xs[-1]:
        return ys[-1]
    i = bisect_right(xs, x)
    part = (x - xs[i - 1]) / (xs[i] - xs[i - 1])
    return ys[i - 1] + part * (ys[i] - ys[i - 1])


@lru_cache(maxsize=4096)
def _curve(link: str, operation: str, ranks: int) -> tuple[float, tuple[float, ...]]:
    """Latency in seconds, and bus bandwidth in bytes a second at the sizes of the table."""
    entry = link_table()["links"].get(link)
    if entry is None:
        return _of_bandwidth(parse_bandwidth(link), operation, ranks)
    if "like" in entry:
        latency, speeds = _curve(entry["like"], operation, ranks)
        return latency, tuple(speed * entry["scale"] for speed in speeds)
    curves = entry["curves"][operation]
    degree = next((degree for degree in sorted(map(int, curves)) if degree >= ranks), max(map(int, curves)))
    measured = curves[str(degree)]
    return measured["latency_us"] * 1e-6, tuple(speed * 1e9 for speed in measured["bus_gb_per_second"])


def _of_bandwidth(bytes_per_second: float, operation: str, ranks: int) -> tuple[float, tuple[float, ...]]:
    """The curve of a link of which only the bandwidth is given, as what large messages reach: latency, then bandwidth.

    The latency is that of PCIe 4, measured; that of the other links differs by a few microseconds.
    """
    latency, _ = _curve("pcie4", operation, ranks)
    volume = FACTORS[operation] * (ranks - 1) / ranks
    sizes = [volume * size * MIB for size in link_table()["sizes_mib"]]
    return latency, tuple(size / (latency + size / bytes_per_second) for size in sizes)


def default_node_link() -> str:
    """What nodes count as linked by, where the recipe does not say."""
    name: str = link_table()["default_node_link"]
    return name


def collective_seconds(operation: str, group: Group | int, size_bytes: float, network: Network | str) -> float:
    """Seconds of one call.

    Args:
        operation: `all_reduce`, `all_gather` or `all_to_all`.
        group: the ranks that take part, or how many neighbours of one node.
        size_bytes: what one rank holds before an all-reduce or an all-to-all, what it holds after an all-gather.
        network: how they are linked, or the name or bandwidth of a link of one node.

    Raises:
        ValueError: where a link is neither a known name nor a bandwidth, and nothing was measured either.
        KeyError: where there is no such operation.
    """
    group = Group.neighbours(group) if isinstance(group, int) else group
    ranks, here = group.ranks, group.here
    if ranks < 2 or size_bytes <= 0:
        return 0.0
    network = Network(network) if isinstance(network, str) else network
    # One that is alone on its node reaches the adapter over what links it to a neighbour.
    near = ranks if here > 1 else 2
    within = max(_within(operation, near, size_bytes, network, wide) for wide in {near, max(near, group.span)})
    if here == ranks:
        return within
    latency, speed = _between_nodes(network.node_link or default_node_link())
    waits = (ranks - 1) * FACTORS[operation] * latency
    if operation == "all_to_all":
        outside = (ranks - here) / ranks * size_bytes / speed
    else:
        outside = FACTORS[operation] * (ranks - 1) / ranks * size_bytes / (here * speed)
    return max(within, waits + outside)


def _between_nodes(link: str) -> tuple[float, float]:
    """Latency in seconds and bytes a second of a link between nodes; of a bandwidth the longest known latency."""
    table = link_table()["node_links"]
    if link in table:
        return table[link]["latency_us"] * 1e-6, table[link]["bus_gb_per_second"] * 1e9
    return max(entry["latency_us"] for entry in table.values()) * 1e-6, parse_bandwidth(link)


def _within(operation: str, ranks: int, size_bytes: float, network: Network, wide: int) -> float:
    """Seconds where all ranks are on one node, with the bus bandwidth of `wide` neighbours."""
    if operation in network.measured:
        return _by_measurement(network.measured[operation], ranks, wide, size_bytes)
    volume = FACTORS[operation] * (ranks - 1) / ranks
    if network.link in known_links():
        latency, speeds = _curve(network.link, operation, wide)
    else:
        latency, speeds = _of_bandwidth(parse_bandwidth(network.link), operation, wide)
    sizes: list[int] = [size * MIB for size in link_table()["sizes_mib"]]
    times: list[float] = [volume * size / speed for size, speed in zip(sizes, speeds, strict=True)]
    if size_bytes < sizes[0]:
        return latency + size_bytes / sizes[0] * max(0.0, times[0] - latency)
    return _on_curve(size_bytes, sizes, times)


def _by_measurement(
    curves: dict[int, tuple[tuple[int, float], ...]], ranks: int, wide: int, size_bytes: float
) -> float:
    """Seconds by the measured curve of as many neighbours as the ranks are wide, else of the next more, else of the
    most."""
    degree = next((degree for degree in sorted(curves) if degree >= wide), max(curves))
    points = curves[degree]
    # A larger message takes no less time: where it seems to, the smaller one was disturbed.
    times = list(accumulate((seconds for _, seconds in reversed(points)), min))[::-1]
    # Of a degree that was not measured the bus bandwidth is taken: times are as (n - 1) / n.
    share = (ranks - 1) / ranks * degree / (degree - 1)
    return share * _on_curve(size_bytes, [size for size, _ in points], times)


def _on_curve(size_bytes: float, sizes: Sequence[int], times: Sequence[float]) -> float:
    """Seconds between points, by logarithms; beyond the largest in proportion."""
    if size_bytes > sizes[-1]:
        return size_bytes / sizes[-1] * times[-1]
    between: float = 2 ** _between(log2(size_bytes), [log2(size) for size in sizes], [log2(time) for time in times])
    return between


def transfer_seconds(size_bytes: float, network: Network) -> float:
    """Seconds of sending a tensor from one device to another: half of what an all-gather of two such tensors moves."""
    return collective_seconds("all_gather", 2, 2 * size_bytes, network)
