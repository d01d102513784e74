"""What a plan says about several nodes: which axes stay within one, and which go over the link between them."""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.estimate.links import default_node_link
from dcompile.facts.resolve import Facts
from dcompile.layout.nodes import group_of, layout_nodes
from dcompile.layout.splits import Splits
from dcompile.plan.types import Decision


def node_decisions(facts: Facts, splits: Splits, devices_per_rank: int) -> Iterator[Decision]:
    """Where the ranks of each axis lie; nothing where the job has one node."""
    devices = facts.devices
    if devices.nodes == 1:
        return
    nodes = layout_nodes(devices, splits, devices_per_rank)
    within = [axis for axis, degree in splits.mesh.items() if group_of(splits, nodes, axis, degree).here == degree]
    across = [axis for axis in splits.mesh if axis not in within]
    words = [f"{' and '.join(within)} within a node"] if within else []
    words += [f"{' and '.join(across)} across {nodes.count} nodes"] if across else []
    because = f"{nodes.ranks_per_node} ranks on each of {nodes.count} nodes, numbered node by node"
    if nodes.count == 1:
        because = f"all of it has room on one of {devices.nodes} nodes"
    yield Decision("nodes", ", ".join(words) or "one rank", because)
    if devices.node_link is None and any(axis != "data" for axis in across):
        why = "the recipe does not say how nodes are linked; this is the slowest that is known"
        yield Decision("devices.node_link", default_node_link(), why)
