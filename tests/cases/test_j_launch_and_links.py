"""Hangs, launch, links between devices, and mixed hardware."""

from __future__ import annotations

import pytest
from conftest import Compile, Verdict

RUN = "run: {prompts: [a red fox]}"
FLUX = f"version: 1\nmodel: {{id: black-forest-labs/FLUX.1-dev, dtype: bfloat16}}\n{RUN}\n"
WAN = f"version: 1\nmodel: {{id: Wan-AI/Wan2.1-T2V-1.3B-Diffusers, dtype: bfloat16}}\n{RUN}\n"
FOUR = "devices: {gpu: h100-sxm-80gb, per_node: 4}\n"


@pytest.mark.parametrize(("value", "code"), [('"1"', None), ("1", "DC203"), ("true", "DC203"), ("1.0", "DC203")])
def test_case_112_peer_access_is_switched_off(
    value: str, code: str | None, compiled: Compile, verdict: Verdict
) -> None:
    """NVIDIA/nccl#631: `launch.env` takes text and nothing that a reader could take for a switch."""
    text = FLUX + FOUR + f"parallel: {{tensor: 4}}\nlaunch: {{env: {{NCCL_P2P_DISABLE: {value}}}}}"
    found = verdict(text)
    assert [(item.code, item.path) for item in found] == ([(code, "launch.env.NCCL_P2P_DISABLE")] if code else [])
    if code is None:
        plan = compiled(text).plan_json
        assert plan is not None
        assert plan["program"]["env"] == {"NCCL_P2P_DISABLE": "1"}
    else:
        assert "in quotes" in found[0].hint


def test_case_113_an_axis_that_is_not_there(verdict: Verdict) -> None:
    """xdit-project/xDiT#284: `pipeline` is no axis. The wait is `launch.timeout_seconds`, which a plan holds."""
    (found,) = verdict(FLUX + FOUR + "parallel: {pipeline: 4}")
    assert found[:2] == ("DC201", "error")
    assert found.path == "parallel.pipeline"
    (found,) = verdict(FLUX + FOUR + "parallel: {tensor: 4}\nlaunch: {timeout: 120s}")
    assert found[:2] == ("DC201", "error")
    assert "timeout_seconds" in found.hint


def test_case_114_uneven_ulysses_of_flux2(compiled: Compile, verdict: Verdict) -> None:
    """vipshop/cache-dit#761: sizes were exchanged in another order on one path, and hung. Here the report's recipe is
    legal, without a word, at lengths that four ranks cannot share evenly.

    That it does not hang: `tests/oracle/test_strategies.py::test_the_pictures_are_those_of_one_process` runs Flux2 with
    four ranks and odd lengths on gloo, within 60 s.
    """
    text = "version: 1\nmodel: {id: black-forest-labs/FLUX.2-dev, dtype: bfloat16}\n"
    text += "run: {prompts: [a red fox], height: 1008, width: 1008, args: {max_sequence_length: 509}}\n"
    text += "devices: {gpu: h200-sxm, per_node: 4}\nparallel: {context: {ulysses: 4%s}}"
    assert verdict(text % ", uneven: true") == []
    plan = compiled(text % ", uneven: true").plan_json
    assert plan is not None
    assert plan["program"]["components"]["transformer"]["context"] == {"ring": 1, "ulysses": 4, "uneven": True}
    assert plan["program"]["ranks"] == 4
    assert {item.code for item in verdict(text % "") if item.severity == "error"} == {"DC402", "DC403"}


@pytest.mark.parametrize("key", ["rendezvous", "node_rank", "head", "port"])
def test_case_116_node_rank_and_rendezvous(key: str, verdict: Verdict) -> None:
    """NVIDIA/nvidia-resiliency-ext#142: no recipe names a node's rank or a meeting point."""
    text = FLUX + "devices: {gpu: h100-sxm-80gb, per_node: 4, nodes: 2}\nparallel: {tensor: 8}\n"
    found = verdict(text + f"launch: {{{key}: x}}")
    assert {(item.code, item.path) for item in found} == {("DC201", f"launch.{key}")}


def test_case_117_a_head_that_falls_back_to_this_host(verdict: Verdict) -> None:
    """mlc-ai/pith-train#91: no key names a head, so there is none to fall back from; the script for several nodes asks
    for it (`tests/unit/test_nodes.py`)."""
    text = FLUX + "devices: {gpu: h100-sxm-80gb, per_node: 4, nodes: 2}\nparallel: {tensor: 8}\n"
    assert [found for found in verdict(text) if found.severity == "error"] == []
    found = verdict(text + "launch: {head: '${HEAD_HOST:-localhost}'}")
    assert "DC201" in {item.code for item in found} <= {"DC201", "DC127"}


def test_case_118_the_port_is_in_use(verdict: Verdict) -> None:
    """xdit-project/mochi-xdit#22: one node takes a free port, whoever holds 29500.

    Kept by `tests/distributed/test_placement.py::test_ranks_of_one_node_meet_on_a_free_port`, which holds 29500. No key
    names a port.
    """
    found = verdict(FLUX + FOUR + "parallel: {tensor: 4}\nlaunch: {port: 29501}")
    assert [(item.code, item.path) for item in found] == [("DC201", "launch.port")]


def test_case_120_a_large_and_a_small_card(verdict: Verdict) -> None:
    """sgl-project/sglang#5614: equal shares are judged by the smaller card, and what the larger one loses is said."""
    machine = "devices: {gpus: [l40s, rtx-4090]}\n"
    found = {item.code: item for item in verdict(FLUX + machine + "parallel: {tensor: 2}")}
    assert found["DC501"].severity == "error"
    assert "of rank 1" in found["DC501"].message
    assert found["DC605"][1:3] == ("warning", "devices.gpus")
    assert "GiB of `l40s` stay unused" in found["DC605"].message
    assert "device_map" in found["DC605"].hint
    assert verdict(FLUX + machine + "parallel: {device_map: balanced}") == []


def test_case_121_two_architectures(compiled: Compile, verdict: Verdict) -> None:
    """komikndr/raylight#117: legal with a warning; the backend is one of torch, and the reserve is each card's."""
    text = WAN + "devices: {gpus: [rtx-5090, rtx-4090]}\nparallel: {context: {ulysses: 2}}"
    (found,) = verdict(text)
    assert found[:3] == ("DC605", "warning", "devices.gpus")
    plan = compiled(text).plan_json
    assert plan is not None
    assert plan["program"]["components"]["transformer"]["attention"] == "native"
    assert len({device["memory_bytes"] for device in plan["devices"]}) == 2


def test_case_122_balanced_on_24_and_8_gb(verdict: Verdict) -> None:
    """From case 120: T5's 8.87 GiB fit on neither card beside or without the transformer, and nothing goes to a CPU."""
    text = FLUX + "devices: {kind: cuda, memory: [24GiB, %s]}\nparallel: {device_map: balanced}"
    (found,) = verdict(text % "8GiB")
    assert found[:3] == ("DC501", "error", "devices.memory")
    assert found.message == (
        "`text_encoder_2` needs 8.87 GiB on device 1, which has 8.00 GiB, 1.00 GiB of it in reserve"
    )
    # On the next larger card there is a place for it.
    assert [item for item in verdict(text % "12GiB") if item.severity == "error"] == []


def test_case_124_a_slice_of_a_card(verdict: Verdict) -> None:
    """pytorch/pytorch#95784: a slice has no number: the launcher's environment names it, and `ids` are numbers."""
    (found,) = verdict(FLUX + "devices: {gpu: h100-sxm-80gb, ids: [MIG-1a2b]}")
    assert found[:2] == ("DC203", "error")
    assert found.path == "devices.ids[0]"
    assert verdict(FLUX + "devices: {gpu: h100-sxm-80gb}\nlaunch: {env: {CUDA_VISIBLE_DEVICES: MIG-1a2b}}") != []


@pytest.mark.parametrize("parallel", ["{data: 2}", "{tensor: 2}", "{context: {ulysses: 2}}"])
def test_case_125_survivors_of_a_failure(parallel: str, compiled: Compile) -> None:
    """xdit-project/xDiT#284: survivors waited in a collective, and held their memory.

    Any recipe is legal. The first rank that fails ends the others:
    `tests/distributed/test_failures.py::test_a_rank_that_is_killed` kills rank 1 while rank 0 waits for it in a
    collective, and all are gone within 30 s, though the plan's own limit is ten minutes.
    """
    done = compiled(FLUX + f"devices: {{gpu: h200-sxm, per_node: 2}}\nparallel: {parallel}")
    assert done.is_valid
    assert done.plan_json is not None
    assert (done.plan_json["program"]["ranks"], done.plan_json["program"]["timeout_seconds"]) == (2, 600)
