"""Which node every rank is on. Ranks are numbered node by node, as torchrun and srun do, and every node has as many."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

from dcompile.facts.resolve import DeviceFacts
from dcompile.facts.types import HardwareFacts
from dcompile.layout.splits import Splits

MOST = 4096
"""Ranks, and nodes, that are looked at one by one: a plan with more is refused (DC407)."""


@dataclass(frozen=True)
class Nodes:
    """Attributes:
    count: nodes that the plan uses, at most those that there are.
    ranks_per_node: ranks on each of them.
    """

    count: int
    ranks_per_node: int

    def node_of(self, rank: int) -> int:
        """The node of a rank."""
        return rank // self.ranks_per_node

    def local(self, rank: int) -> int:
        """A rank's number within its node."""
        return rank % self.ranks_per_node


def nodes_of(devices: DeviceFacts, ranks: int, devices_per_rank: int) -> Nodes | None:
    """The fewest nodes that have room for all ranks, as many on each; None where they cannot be shared out so."""
    most = min(devices.nodes, ranks, MOST)
    if devices.per_node is None:
        count = max(n for n in range(1, most + 1) if ranks % n == 0)
        return Nodes(count, ranks // count)
    each = devices.per_node // devices_per_rank
    for count in range(1, most + 1):
        if ranks % count == 0 and ranks // count <= each:
            return Nodes(count, ranks // count)
    return None


def layout_nodes(devices: DeviceFacts, splits: Splits, devices_per_rank: int) -> Nodes:
    """`nodes_of` a plan; every node full where the rules (DC407) refuse it."""
    found = nodes_of(devices, splits.ranks, devices_per_rank)
    return found or Nodes(devices.nodes, max(1, (devices.per_node or 1) // devices_per_rank))


def devices_per_rank(devices: DeviceFacts, splits: Splits) -> int:
    """Devices that one rank uses: those that are named; under `balanced` all that there are for a rank."""
    each = 1 if devices.total is None or not splits.balanced else devices.total // splits.ranks
    return max(splits.named_devices, each)


def used_devices(devices: DeviceFacts, splits: Splits) -> tuple[HardwareFacts, ...]:
    """The devices of a node on which the ranks of a plan work, by number; those that it leaves idle are not among them.

    Like `DeviceFacts.node` one entry for all where they are alike.
    """
    each = devices_per_rank(devices, splits)
    return devices.node[: layout_nodes(devices, splits, each).ranks_per_node * each]


def stands_for(devices: DeviceFacts, splits: Splits, device: int) -> tuple[HardwareFacts, ...]:
    """What a device of a rank is on the machine: one for each rank of a node, those that are alike once."""
    node = devices.node
    if len(node) == 1:
        return node
    each = devices_per_rank(devices, splits)
    ranks = min(layout_nodes(devices, splits, each).ranks_per_node, len(node))
    return tuple(dict.fromkeys(node[(rank * each + device) % len(node)] for rank in range(ranks)))


@dataclass(frozen=True)
class Group:
    """Ranks that exchange something.

    Attributes:
        ranks: how many.
        here: how many of them are on each node: all where no such group leaves its node, else the fewest that any has
            on a node that it touches.
        span: how many neighbours on a node they are among: more than `here` where others lie between them.
    """

    ranks: int
    here: int
    span: int

    @classmethod
    def neighbours(cls, ranks: int) -> Group:
        """Ranks of one node that are next to each other."""
        return cls(ranks, ranks, ranks)


def group_of(splits: Splits, nodes: Nodes, axis: str, degree: int) -> Group:
    """A group of `degree` ranks along an axis of the mesh (`ulysses` with all of `context` too)."""
    names = list(splits.mesh)
    faster = names[names.index(axis) + 1 :] if axis in names else []
    stride = prod(splits.mesh[name] for name in faster)
    here = _here(splits.ranks, nodes.ranks_per_node, stride, degree)
    return Group(degree, here, min(here * stride, nodes.ranks_per_node) if here > 1 else 1)


@lru_cache(maxsize=1024)
def _here(ranks: int, per_node: int, stride: int, degree: int) -> int:
    if ranks <= per_node:
        return degree
    if ranks > MOST:
        return min(degree, max(1, per_node // stride))
    fewest = degree
    for first in range(ranks):
        if first // stride % degree:
            continue
        at = [(first + i * stride) // per_node for i in range(degree)]
        fewest = min(fewest, *(at.count(node) for node in set(at)))
    return fewest
