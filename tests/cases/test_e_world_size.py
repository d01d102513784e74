"""Cases 55 to 63: how many ranks there are, and which degrees make them."""

from __future__ import annotations

from itertools import product
from typing import Any

FLUX = "version: 1\nmodel: {id: black-forest-labs/FLUX.1-dev}\n"
RUN = "run: {prompts: [a red fox], height: 1024, width: 1024}\n"


def gpus(count: int) -> str:
    return f"devices: {{gpu: h100-sxm-80gb, per_node: {count}}}\n"


def test_case_056_two_branches_of_a_distilled_model(verdict: Any) -> None:
    """xdit-project/xDiT#345: FLUX.1-dev runs one branch a step, so there is nothing to split. `cfg` is refused at its
    place as a thing that is not available yet; that two 24 GB cards do not hold the weights comes after it."""
    devices = "devices: {gpu: rtx-4090, per_node: 2}\n"
    found = verdict(FLUX + devices + RUN + "parallel: {cfg: 2}")
    assert ("parallel.cfg", "error") in [(one.path, one.severity) for one in found]
    assert "DC501" in [one.code for one in verdict(FLUX + devices + RUN + "parallel: {data: 2}")]


def test_case_057_no_degree_that_follows_from_others(verdict: Any, compiled: Any) -> None:
    """sgl-project/sglang#37823: a sequence degree beside the others made most generated commands wrong. There is no
    such key, and every mesh of the whole space has as many ranks as its degrees make."""
    found = verdict(FLUX + gpus(8) + RUN + "parallel: {context: {ulysses: 2, ring: 2}, sequence: 8}")
    assert [(one.code, one.path) for one in found] == [("DC201", "parallel.sequence")]
    for data, ring, ulysses in product((1, 2), (1, 2, 4), (1, 2, 4)):
        total = data * ring * ulysses
        context = f"context: {{ring: {ring}, ulysses: {ulysses}}}"
        made = compiled(FLUX + gpus(total) + RUN + f"parallel: {{data: {data}, {context}}}")
        assert [one.code for one in made.diagnostics if one.severity.value == "error"] == []
        assert made.plan_json["program"]["ranks"] == total
        axes = dict(made.plan_json["program"]["mesh_axes"])
        assert axes == {
            axis: degree for axis, degree in (("data", data), ("ring", ring), ("ulysses", ulysses)) if degree > 1
        }


def test_case_058_an_axis_that_is_not_offered(verdict: Any) -> None:
    """xdit-project/xDiT#600: patch pipelines are not offered; the message names what is."""
    found = verdict(FLUX + gpus(4) + RUN + "parallel: {pipeline: 4}")
    assert [one.code for one in found] == ["DC201"]
    assert found[0].path == "parallel.pipeline"


def test_case_060_per_node_and_nodes_and_no_total(verdict: Any) -> None:
    """huggingface/accelerate#2818, #1217: eight devices are two nodes of four, and no key holds the total; the count of
    eight is what degrees are held against."""
    nodes = "devices: {gpu: h100-sxm-80gb, per_node: 4, nodes: 2}\n"
    found = verdict(FLUX + nodes + RUN + "parallel: {context: {ulysses: 8}}")
    assert found == []
    found = verdict(FLUX + nodes + RUN + "parallel: {context: {ulysses: 8, ring: 2}}")
    assert "the plan needs 16 devices (ring 2 x ulysses 8), and there are 8" in [one.message for one in found]
    for key in ("total: 8", "num_processes: 8", "world_size: 8"):
        found = verdict(FLUX + f"devices: {{gpu: h100-sxm-80gb, per_node: 4, {key}}}\n" + RUN)
        assert [one.code for one in found] == ["DC201"]


def test_case_061_degrees_smaller_than_the_world(verdict: Any, compiled: Any) -> None:
    """From huggingface/diffusers#12533: Ulysses 2 on four devices leaves two idle, which is said with the plan that
    uses them; with `data: 2` all four ranks are on the mesh."""
    found = verdict(FLUX + gpus(4) + RUN + "parallel: {context: {ulysses: 2}}")
    assert [(one.code, one.severity) for one in found] == [("DC408", "warning")]
    assert found[0].message == "the plan uses 2 of 4 devices"
    assert found[0].hint.startswith("`data: 2`")
    run = RUN.replace("[a red fox]", "[a red fox, a blue fox]")
    made = compiled(FLUX + gpus(4) + run + "parallel: {data: 2, context: {ulysses: 2}}")
    assert made.diagnostics == ()
    assert made.plan_json["program"]["mesh_axes"] == [["data", 2], ["ulysses", 2]]


def test_case_062_seeds_go_by_row(compiled: Any) -> None:
    """NVIDIA-NeMo/Automodel#3157: data x context = world, and a picture's seed is its row's, whatever rank makes it."""
    run = "run: {prompts: [a, b, c, d, e, f], height: 1024, width: 1024, seed: 7}\n"
    split = compiled(FLUX + gpus(8) + run + "parallel: {data: 4, context: {ulysses: 2}}").plan_json["program"]
    alone = compiled(FLUX + gpus(1) + run).plan_json["program"]
    assert split["ranks"] == 8
    assert split["run"]["shares"] == [[0, 1], [2, 3], [4], [5]]
    assert split["run"]["rows"] == alone["run"]["rows"]
    assert [row["seed"] for row in alone["run"]["rows"]] == [7, 8, 9, 10, 11, 12]
