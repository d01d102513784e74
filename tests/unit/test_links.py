"""`devices.link` and `devices.node_link`: a known name, or a bandwidth with a unit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dcompile.core.units import parse_bandwidth
from dcompile.driver import Compiled, compile_recipe
from dcompile.estimate.links import MIB, collective_seconds
from dcompile.estimate.step import step_seconds as estimate_step
from dcompile.facts.links import known_links, known_node_links, link_table
from dcompile.facts.resolve import resolve
from dcompile.rules.rule import subject_of

RECIPE = """
version: 1
model: {id: black-forest-labs/FLUX.1-dev, dtype: bfloat16}
devices: {gpu: h100-sxm-80gb, per_node: 8}
parallel: {tensor: 8}
run: {prompts: [a fox], steps: 28, height: 1024, width: 1024, seed: 1}
"""


def compiled(folder: Path, *overrides: str) -> Compiled:
    file = folder / "recipe.yaml"
    file.write_text(RECIPE, encoding="utf-8")
    return compile_recipe(file, overrides)


def step_seconds(folder: Path, *overrides: str) -> float:
    plan: dict[str, Any] | None = compiled(folder, *overrides).plan_json
    assert plan is not None
    return float(plan["estimate"]["step_seconds"])


@pytest.mark.parametrize(
    ("text", "bytes_per_second"),
    [
        ("64GB/s", 64e9),
        ("64 GB/s", 64e9),
        ("1.5GiB/s", 1.5 * 2**30),
        ("400Gbit/s", 50e9),
        ("8bit/s", 1),
        ("5kB/s", 5e3),
    ],
)
def test_bandwidths(text: str, bytes_per_second: float) -> None:
    assert parse_bandwidth(text) == pytest.approx(bytes_per_second)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("400Gb/s", "write 400Gbit/s or 400GB/s"),
        ("400Gbps", "write 400Gbit/s or 400GB/s"),
        ("10gib/s", "write 10Gibit/s or 10GiB/s"),
        ("64GB", "write 64GB/s"),
        ("64", "no unit"),
        ("0GB/s", "more than 0"),
        ("64GB/h", "write a number and a unit"),
        ("1e9B/s", "write a number and a unit"),
    ],
)
def test_what_is_no_bandwidth(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_bandwidth(text)


@pytest.mark.parametrize(
    ("key", "link", "hint", "fix"),
    [
        ("link", "nvlnk4", "did you mean `nvlink4`?", "nvlink4"),
        ("link", "NVLink4", "did you mean `nvlink4`?", "nvlink4"),
        ("link", "nvlink6", "use nvlink, nvlink3, nvlink4, nvlink5, pcie", None),
        ("link", "pci", "did you mean `pcie`?", "pcie"),
        ("link", "ethernet-200", "it is a `node_link`", None),
        ("link", "400Gb/s", "or a bandwidth such as 64GB/s", None),
        ("node_link", "infiniband", "use ethernet-200, infiniband-400", None),
        ("node_link", "infinband-400", "did you mean `infiniband-400`?", "infiniband-400"),
        ("node_link", "nvlink4", "it is a `link`", None),
        ("node_link", "smoke", "use ethernet-200, infiniband-400, infiniband-800, or a bandwidth", None),
    ],
)
def test_a_link_that_nobody_knows_is_an_error(key: str, link: str, hint: str, fix: str | None, tmp_path: Path) -> None:
    (found,) = compiled(tmp_path, f"devices.{key}={link}").diagnostics
    assert (found.code, found.severity.value, found.path, found.fix) == ("DC302", "error", ("devices", key), fix)
    assert hint in found.hint


@pytest.mark.parametrize("link", [*known_links(), "64GB/s"])
def test_a_known_link_is_taken(link: str, tmp_path: Path) -> None:
    assert compiled(tmp_path, f"devices.link={link}").is_valid
    assert step_seconds(tmp_path, f"devices.link={link}") > 0


def test_a_bandwidth_is_what_large_messages_reach() -> None:
    for operation in ("all_reduce", "all_gather", "all_to_all"):
        factor = (2 if operation == "all_reduce" else 1) * 3 / 4
        seconds = collective_seconds(operation, 4, 4096 * MIB, "50GB/s")
        assert seconds == pytest.approx(factor * 4096 * MIB / 50e9, rel=0.01)
        assert seconds < collective_seconds(operation, 4, 4096 * MIB, "49GB/s")


def test_a_slower_link_takes_longer(tmp_path: Path) -> None:
    slow, fast = (step_seconds(tmp_path, f"devices.link={link}") for link in ("10GB/s", "300GB/s"))
    assert slow > fast
    assert {found.code for found in compiled(tmp_path, "devices.link=1GB/s").diagnostics} == {"DC603"}


def on_two_nodes(folder: Path, node_link: str | None, per_node: int, parallel: str = "parallel={tensor: 8}") -> float:
    """Seconds of a step of a job that recipes cannot ask for yet."""
    recipe = compiled(folder, parallel).recipe
    assert recipe is not None
    recipe = recipe.model_copy(update={"devices": recipe.devices.model_copy(update={"node_link": node_link})})
    facts, _ = resolve(recipe, folder)
    assert facts is not None
    facts = replace(facts, devices=replace(facts.devices, per_node=per_node, nodes=2))
    subject = subject_of(recipe, facts)
    placement = subject.owned.placement
    found = estimate_step(recipe, facts, subject.splits, placement, subject.settings)
    assert found is not None
    return found.total


def test_nodes_are_linked_by_the_slowest_where_nothing_is_said(tmp_path: Path) -> None:
    default = link_table()["default_node_link"]
    assert default in known_node_links()
    assert on_two_nodes(tmp_path, None, 4) == on_two_nodes(tmp_path, default, 4)
    assert on_two_nodes(tmp_path, None, 4) > on_two_nodes(tmp_path, "infiniband-800", 4) > step_seconds(tmp_path)
    assert on_two_nodes(tmp_path, "1GB/s", 4) > on_two_nodes(tmp_path, "2GB/s", 4)


@pytest.mark.parametrize("parallel", ["{tensor: 8}", "{data: 2, context: {ulysses: 2, ring: 4}}"])
def test_a_group_within_a_node_does_not_wait_for_the_link_between_nodes(parallel: str, tmp_path: Path) -> None:
    times = [on_two_nodes(tmp_path, link, 8, f"parallel={parallel}") for link in ("1MB/s", "infiniband-800")]
    assert times[0] == times[1]
    assert on_two_nodes(tmp_path, "1MB/s", 4, f"parallel={parallel}") > 2 * times[0]
