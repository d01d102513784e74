"""Several nodes: where ranks lie, what crosses the network, what `auto` makes of 2, 8 and 64, and how it is started."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from dcompile.cli.main import main
from dcompile.driver import Compiled, compile_recipe
from dcompile.estimate.links import Network, collective_seconds
from dcompile.facts.resolve import DeviceFacts
from dcompile.layout.nodes import Group, Nodes, group_of, layout_nodes, nodes_of
from dcompile.layout.splits import Split, Splits

FLUX2 = "black-forest-labs/FLUX.2-dev"
WAN = "Wan-AI/Wan2.1-T2V-14B-Diffusers"
RECIPE = """
version: 1
model: {{id: {model}, dtype: bfloat16}}
devices: {{gpu: h100-sxm-80gb, per_node: 8, nodes: {nodes}{more}}}
parallel: {parallel}
run: {{prompts: [{prompts}], seed: 1{run}}}
"""
CLIP = ", height: 512, width: 832, frames: 81"


def job(
    folder: Path, nodes: int, parallel: str = "auto", model: str = FLUX2, rows: int = 1, more: str = "", run: str = ""
) -> Compiled:
    file = folder / "job.yaml"
    prompts = ", ".join(f"p{index}" for index in range(rows))
    text = RECIPE.format(model=model, nodes=nodes, parallel=parallel, prompts=prompts, more=more, run=run)
    file.write_text(text, encoding="utf-8")
    found = compile_recipe(file)
    assert found.is_valid, found.diagnostics
    return found


def chosen(found: Compiled) -> str:
    assert found.choice is not None
    return found.choice.winner.candidate.text


def decisions(found: Compiled) -> dict[str, Any]:
    assert found.plan_json is not None
    return {one["what"]: one for one in found.plan_json["decisions"]}


@pytest.mark.parametrize(
    ("ranks", "each", "expected"),
    [
        (8, 1, Nodes(1, 8)),  # one node is enough
        (10, 1, Nodes(2, 5)),
        (16, 1, Nodes(2, 8)),
        (2, 8, Nodes(2, 1)),
        (4, 3, Nodes(2, 2)),
        (9, 1, None),
        (15, 1, None),
        (1, 16, None),
        (18, 1, None),
    ],
)
def test_the_fewest_nodes_that_have_room(ranks: int, each: int, expected: Nodes | None) -> None:
    devices = DeviceFacts("cuda", (), 8, 2, 0, False)
    assert nodes_of(devices, ranks, each) == expected


def test_what_no_plan_can_have_takes_no_time() -> None:
    endless = DeviceFacts("cuda", (), 3, 10**9, 0, False)
    assert nodes_of(endless, 4096**3 + 1, 1) is None
    assert nodes_of(DeviceFacts("cpu", (), None, 10**9, 0, False), 2**36, 1) == Nodes(4096, 2**24)
    splits = Splits(data=4096, components={"a": Split(ring=4096), "b": Split(tensor=4096)})
    assert group_of(splits, Nodes(10**9, 8), "ring", 4096).here == 1
    assert group_of(splits, Nodes(10**9, 8192), "tensor", 4096).here == 4096


def test_on_a_cpu_nodes_have_as_many_ranks_as_it_takes() -> None:
    assert nodes_of(DeviceFacts("cpu", (), None, 3, 0, False), 4, 1) == Nodes(2, 2)


def test_ranks_of_a_group_on_a_node_follow_from_the_axis() -> None:
    splits = Splits(data=2, components={"a": Split(ring=2, ulysses=2), "b": Split(tensor=4)})
    assert splits.mesh == {"data": 2, "ring": 2, "ulysses": 2, "tensor": 4}
    devices = DeviceFacts("cuda", (), 8, 4, 0, False)
    nodes = layout_nodes(devices, splits, 1)
    assert nodes == Nodes(4, 8)
    assert group_of(splits, nodes, "tensor", 4) == Group(4, 4, 4)
    assert group_of(splits, nodes, "ulysses", 2) == Group(2, 2, 8)  # with tensor's ranks between them
    assert group_of(splits, nodes, "ring", 2) == Group(2, 1, 1)  # its neighbour is eight ranks further
    assert group_of(splits, nodes, "ulysses", 4) == Group(4, 2, 8)  # all of context
    assert group_of(splits, nodes, "data", 2) == Group(2, 1, 1)
    uneven = Splits(data=2, components={"a": Split(ring=3)})
    assert group_of(uneven, Nodes(3, 2), "ring", 3) == Group(3, 1, 1)


def test_what_crosses_the_network_goes_by_adapters() -> None:
    network, size, speed = Network("nvlink4", "infiniband-400"), 2**28, 50e9
    eight = Group(16, 8, 8)
    # Sixteen ranks, eight a node: a ring has eight adapters, an all-to-all sends half of what each rank holds.
    ring = collective_seconds("all_reduce", eight, size, network)
    assert ring == pytest.approx(15 * 2 * 10e-6 + 2 * 15 / 16 * size / (8 * speed))
    assert collective_seconds("all_to_all", eight, size, network) == pytest.approx(15 * 10e-6 + 8 / 16 * size / speed)
    # One rank a node has one adapter.
    alone = collective_seconds("all_reduce", Group(2, 1, 1), size, network)
    assert alone == pytest.approx(2 * 10e-6 + size / speed)
    assert collective_seconds("all_reduce", 8, size, network) == collective_seconds("all_reduce", 8, size, "nvlink4")


def test_ranks_with_others_between_them_are_as_slow_as_all_of_these(tmp_path: Path) -> None:
    size = 2**26
    wide = collective_seconds("all_gather", Group(2, 2, 4), size, "pcie4")
    assert wide == pytest.approx(collective_seconds("all_gather", 4, size, "pcie4") * (1 / 2) / (3 / 4))
    assert wide > 3 * collective_seconds("all_gather", 2, size, "pcie4")
    measured = Network("nvlink4", None, {"all_gather": {2: ((size, 1.0),), 4: ((size, 9.0),)}})
    assert collective_seconds("all_gather", Group(2, 2, 4), size, measured) == pytest.approx(9.0 * (1 / 2) / (3 / 4))


@pytest.mark.parametrize("nodes", [2, 8, 64])
def test_auto_keeps_tensor_within_a_node_and_lays_data_across(tmp_path: Path, nodes: int) -> None:
    found = job(tmp_path, nodes, rows=8 * nodes)
    plan = found.plan_json
    assert plan is not None
    assert plan["mesh"]["data"] > 1
    assert 8 % plan["mesh"]["tensor"] == 0
    assert plan["program"]["nodes"] == nodes
    assert len(plan["devices"]) == 8 * nodes
    said = decisions(found)["nodes"]
    assert said["chosen"] == f"tensor within a node, data across {nodes} nodes"
    assert said["because"] == f"8 ranks on each of {nodes} nodes, numbered node by node"
    by_node = [device["node"] for device in plan["devices"]]
    assert by_node == sorted(by_node)
    assert {by_node.count(node) for node in set(by_node)} == {8}
    assert "devices.node_link" not in decisions(found)  # nothing of a step crosses it


def test_a_long_clip_spreads_over_nodes_only_where_the_link_pays(tmp_path: Path) -> None:
    fast = job(tmp_path, 2, model=WAN, run=CLIP, more=", node_link: infiniband-800")
    slow = job(tmp_path, 2, model=WAN, run=CLIP, more=", node_link: 1GB/s")
    plans = [found.plan_json for found in (fast, slow)]
    assert plans[0] is not None
    assert plans[1] is not None
    # Ulysses, whose exchanges are smaller, has the neighbours; ring goes across.
    assert plans[0]["mesh"] == {"ring": 2, "ulysses": 8}
    assert decisions(fast)["nodes"]["chosen"] == "ulysses within a node, ring across 2 nodes"
    assert chosen(slow) == "context: {ulysses: 8}"
    assert plans[1]["program"]["nodes"] == 1
    assert decisions(slow)["nodes"]["because"] == "all of it has room on one of 2 nodes"
    assert decisions(slow)["devices"]["chosen"] == "8 of 16"


def test_what_nobody_says_about_the_link_is_a_decision(tmp_path: Path) -> None:
    found = job(tmp_path, 2, "{context: {ulysses: 8, ring: 2}}", model=WAN, run=CLIP)
    assert decisions(found)["devices.node_link"]["chosen"] == "ethernet-200"
    known = job(
        tmp_path, 2, "{context: {ulysses: 8, ring: 2}}", model=WAN, run=CLIP, more=", node_link: infiniband-400"
    )
    assert "devices.node_link" not in decisions(known)


def test_tensor_across_nodes_costs_more_than_within_one(tmp_path: Path) -> None:
    estimates = [
        job(tmp_path, nodes, f"{{tensor: {degree}}}").plan_json["estimate"]["communication_seconds"]  # type: ignore[index]
        for nodes, degree in ((1, 8), (2, 8), (2, 16))
    ]
    assert estimates[0] == estimates[1]
    assert estimates[2] > 2 * estimates[1]


def test_a_plan_that_names_nodes_is_that_of_auto(tmp_path: Path) -> None:
    auto = job(tmp_path, 2, rows=4)
    named = job(tmp_path, 2, f"{{{chosen(auto)}}}", rows=4)
    assert auto.plan_json is not None
    assert named.plan_json is not None
    for key in ("mesh", "devices", "estimate", "program"):
        assert auto.plan_json[key] == named.plan_json[key]


def test_explain_says_where_the_axes_lie(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job(tmp_path, 2, rows=4)
    assert main(["explain", str(tmp_path / "job.yaml")]) == 0
    text = capsys.readouterr().out
    assert "tensor within a node, data across 2 nodes" in text
    assert re.search(r"nodes: 1: data: \d, ", text)


def test_the_script_starts_one_node_and_asks_where_the_first_is(tmp_path: Path) -> None:
    found = job(tmp_path, 2, "{data: 2, tensor: 8}", rows=2)
    assert found.bundle is not None
    script = found.bundle["launch/torchrun.sh"]
    assert "--nnodes 2 --nproc-per-node 8 " in script
    assert "--standalone" not in script
    assert "MASTER_ADDR:?" in script
    program = json.loads(found.bundle["plan.json"])["program"]
    assert (program["ranks"], program["nodes"], program["ranks_per_node"]) == (16, 2, 8)


def test_host_memory_is_that_of_one_node(tmp_path: Path) -> None:
    for nodes, code in ((1, "DC502"), (2, None)):
        file = tmp_path / "job.yaml"
        file.write_text(
            "version: 1\nmodel: {id: black-forest-labs/FLUX.1-dev, dtype: bfloat16}\n"
            f"devices: {{gpu: h100-sxm-80gb, per_node: {8 // nodes}, nodes: {nodes}, host_memory: 130GiB}}\n"
            "parallel: {data: 8}\nrun: {prompts: [a, b, c, d, e, f, g, h]}\n"
        )
        codes = [one.code for one in compile_recipe(file).diagnostics]
        assert codes == ([code] if code else [])
