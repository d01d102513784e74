"""The links between devices and between nodes: names whose speed was measured, or a bandwidth."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from dcompile.core.diagnostics import Diagnostic, Severity
from dcompile.core.meant import meant
from dcompile.core.units import parse_bandwidth
from dcompile.facts.registry import HARDWARE, read_json
from dcompile.recipe.model import Devices


@lru_cache(maxsize=1)
def link_table() -> dict[str, Any]:
    """`hardware/links.json`: measured speeds of the links within a node and between nodes."""
    table: dict[str, Any] = read_json(HARDWARE.parent / "links.json")
    return table


def known_links() -> tuple[str, ...]:
    """The names of links within a node, sorted."""
    return tuple(sorted(link_table()["links"]))


def known_node_links() -> tuple[str, ...]:
    """The names of links between nodes, sorted."""
    return tuple(sorted(link_table()["node_links"]))


def host_bytes_per_second(link: str) -> float:
    """What a device takes from pinned memory of its host.

    Args:
        link: how it is linked to other devices, which tells its generation; one that does not say stands for the
            slowest.
    """
    hosts = link_table()["host_links"].values()
    found = next((host for host in hosts if link in host["of"]), None)
    speed: float = found["gb_per_second"] if found else min(host["gb_per_second"] for host in hosts)
    return speed * 1e9


def link_faults(section: Devices) -> list[Diagnostic]:
    """DC302 for `link` and `node_link` that are neither a known name nor a bandwidth."""
    found = []
    for key, given in (("link", section.link), ("node_link", section.node_link)):
        if given is None:
            continue
        names, others = known_links(), known_node_links()
        names, others = (names, others) if key == "link" else (others, names)
        if given in names or (given[:1].isdigit() and _fault(given) is None):
            continue
        path = ("devices", key)
        if given[:1].isdigit():
            found.append(Diagnostic("DC302", Severity.ERROR, f"`{path[1]}`: {_fault(given)}", _choices(names), path))
            continue
        only = meant(given, names)
        hint = f"did you mean `{only}`?" if only else _choices(names)
        if given in others:
            hint = f"it is a `{'node_link' if key == 'link' else 'link'}`; {_choices(names)}"
        what = "between devices" if key == "link" else "between nodes"
        message = f"`{given}` is not a known link {what}"
        found.append(Diagnostic("DC302", Severity.ERROR, message, hint, path, fix=only))
    return found


def _fault(text: str) -> str | None:
    try:
        parse_bandwidth(text)
    except ValueError as fault:
        return str(fault)
    return None


def _choices(names: tuple[str, ...]) -> str:
    return f"use {', '.join(names)}, or a bandwidth such as 64GB/s"
