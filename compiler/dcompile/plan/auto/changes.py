"""What would change the choice: the same search for a job that differs in one thing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from dcompile.estimate.links import Network, collective_seconds, default_node_link, is_link
from dcompile.facts import registry
from dcompile.facts.links import known_links, known_node_links
from dcompile.facts.resolve import Facts
from dcompile.facts.types import HardwareFacts
from dcompile.layout.nodes import Group
from dcompile.layout.settings import has_own_shape, settings_of, size_can_be_given
from dcompile.plan.auto.choose import Choice
from dcompile.plan.auto.judge import Judged
from dcompile.plan.auto.ladders import LARGER
from dcompile.plan.auto.winner import winner
from dcompile.recipe.model import Recipe

LARGEST_BOX = 8
"""Accelerators of the largest box that is common: more than that are on another node."""
_MAKERS = {"nvlink": "sm", "xgmi": "gfx"}
"""Links that only one maker's cards have, by how their names and those of its architectures begin."""
MESSAGE_BYTES = 2**24
"""Links are ordered by an all-to-all of this size, about a FLUX.1 block's, over four devices."""


@dataclass(frozen=True)
class Change:
    """Attributes:
    what: what differs.
    winner: what would be chosen then; None where nothing would fit.
    """

    what: str
    winner: Judged | None

    def differs(self, now: Choice) -> bool:
        """Whether another plan would be chosen."""
        return self.winner is None or self.winner.candidate.text != now.winner.candidate.text


def changes(recipe: Recipe, facts: Facts) -> Iterator[Change]:
    """The choice with one card or node more and one less, the next faster and slower link, larger cards, a smaller
    picture.

    Args:
        recipe: one that asks for `auto`.
        facts: its facts.
    """
    devices = facts.devices
    is_mixed = len({device.name for device in devices.node}) > 1

    def other(what: str, **changed: Any) -> Change:
        return _with(recipe, replace(facts, devices=replace(devices, **changed)), what)

    is_box = devices.nodes == 1
    if not is_box or (devices.per_node or 0) >= LARGEST_BOX:
        yield other(f"nodes: {devices.nodes + 1}", nodes=devices.nodes + 1)
    if not is_box:
        yield other(f"nodes: {devices.nodes - 1}", nodes=devices.nodes - 1)
    if is_box and devices.per_node is not None and not is_mixed:
        if devices.per_node < LARGEST_BOX:
            yield other(f"per_node: {devices.per_node + 1}", per_node=devices.per_node + 1)
        if devices.per_node > 1:
            yield other(f"per_node: {devices.per_node - 1}", per_node=devices.per_node - 1)
    if (devices.total or 1) > 1:
        for link in _near(devices.node[0].link, _links_of(devices.node), lambda name: (name, Group.neighbours(4))):
            node = tuple(replace(device, link=link) for device in devices.node)
            yield other(f"link: {link}", node=node, curves={})
    if devices.nodes > 1:
        own = devices.node_link or default_node_link()
        within = devices.node[0].link
        for link in _near(own, known_node_links(), lambda name: (Network(within, name), Group(4, 1, 1))):
            yield other(f"node_link: {link}", node_link=link)
    known = [registry.load_hardware(name) for name in registry.known_hardware()]
    if devices.has_memory and not is_mixed:
        more = LARGER * devices.node[0].memory_bytes
        larger = [one for one in known if one.memory_bytes > more and one.kind == devices.kind]
        if larger:
            size = min(one.memory_bytes for one in larger)
            node = tuple(replace(device, memory_bytes=size) for device in devices.node)
            yield other(f"the same devices with {size / 2**30:.0f} GiB", node=node)
    settings = settings_of(recipe, facts)
    step = max(facts.model.tokens["spatial"], facts.model.tokens.get("multiple", 1))
    is_same = size_can_be_given(facts.model, recipe.run.args) and not any(map(has_own_shape, facts.rows))
    if min(settings.height_px, settings.width_px) >= 4 * step and is_same:
        high, wide = (side // 2 // step * step for side in (settings.height_px, settings.width_px))
        run = recipe.run.model_copy(update={"height": high, "width": wide})
        yield _with(recipe.model_copy(update={"run": run}), facts, f"{wide}x{high} pixels")


def _links_of(node: tuple[HardwareFacts, ...]) -> tuple[str, ...]:
    """The known links that a node's cards could have; its own in any case."""
    made = tuple(device.architecture or "" for device in node)
    makers = {
        name: next((maker for link, maker in _MAKERS.items() if name.startswith(link)), "") for name in known_links()
    }
    return tuple(
        name
        for name, maker in makers.items()
        if name == node[0].link or all(architecture.startswith(maker) for architecture in made)
    )


def _with(recipe: Recipe, facts: Facts, what: str) -> Change:
    return Change(what, winner(recipe, facts))


def _near(link: str, known: tuple[str, ...], at: Callable[[str], tuple[Network | str, Group]]) -> Iterator[str]:
    """The next faster link and the next slower one, by an all-to-all of four ranks.

    Args:
        at: for a link the network that has it, and where the ranks are.
    """
    if not is_link(link, known):
        return

    def seconds(name: str) -> float:
        network, group = at(name)
        return collective_seconds("all_to_all", group, MESSAGE_BYTES, network)

    own, took = seconds(link), {name: seconds(name) for name in known}
    faster = [name for name in took if took[name] < own]
    slower = [name for name in took if took[name] > own]
    if faster:
        yield max(faster, key=lambda name: (took[name], name))
    if slower:
        yield min(slower, key=lambda name: (took[name], name))
