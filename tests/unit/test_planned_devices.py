"""Whether a machine has the devices of a plan, by made-up properties."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from dcompile.core.planned_devices import Found, device_faults, device_notes
from dcompile.driver import Compiled

H100 = Found("NVIDIA H100 80GB HBM3", 84_929_347_584)
A100 = Found("NVIDIA A100-SXM4-40GB", 42_298_834_944)
L4 = Found("NVIDIA L4", 23_659_151_360)
RTX4090 = Found("NVIDIA GeForce RTX 4090", 25_386_352_640)
L40S = Found("NVIDIA L40S", 47_810_936_832)
MAX = Found("Intel(R) Data Center GPU Max 1550", 68_719_476_736)


@pytest.fixture
def plan_of(compiled: Callable[..., Compiled]) -> Callable[..., dict[str, Any]]:
    def plan(devices: str, parallel: str = "{}", model: str = "black-forest-labs/FLUX.1-dev") -> dict[str, Any]:
        text = (
            f"version: 1\nmodel: {{id: {model}}}\ndevices: {devices}\nparallel: {parallel}\nrun: {{prompts: [a, b]}}\n"
        )
        found = compiled(text)
        assert found.plan_json is not None, found.diagnostics
        return found.plan_json

    return plan


def test_the_planned_devices_are_no_fault(plan_of: Callable[..., dict[str, Any]]) -> None:
    """Drivers say a little less than a table."""
    plan = plan_of("{gpu: h100-sxm-80gb, per_node: 2}", "{data: 2}")
    assert plan["program"]["device_names"] == [[H100.name], [H100.name]]
    assert device_faults(plan, [H100, H100], [0, 1]) == device_notes(plan, [H100, H100], [0, 1]) == []


def test_a_card_without_room(plan_of: Callable[..., dict[str, Any]]) -> None:
    plan = plan_of("{gpu: h100-sxm-80gb, per_node: 2}", "{data: 2}")
    (found,) = device_faults(plan, [H100, L4], [0, 1])
    what, _, way_out = found.partition(": ")
    assert what.startswith("cuda:1 is NVIDIA L4 with 22.03 GiB, and the plan was made for NVIDIA H100 80GB HBM3")
    assert ", of which it needs 3" in what
    assert way_out.startswith("list `gpus` as torch numbers this machine (NVIDIA H100 80GB HBM3, NVIDIA L4), or set")
    assert device_notes(plan, [H100, L4], [0, 1]) == []
    first, second = device_faults(plan, [L4, L4], [0, 1])
    assert first.endswith(": compile the recipe again with this machine under `devices` (`dcompile probe` writes it)")
    assert second.replace("cuda:1", "cuda:0") == first


def test_another_card_with_room_is_a_note(plan_of: Callable[..., dict[str, Any]]) -> None:
    plan = plan_of("{gpu: h100-sxm-80gb}")
    assert device_faults(plan, [A100], [0]) == []
    (note,) = device_notes(plan, [A100], [0])
    assert note.endswith("it has room, and its times are not those of the plan")


def test_cards_of_a_mixed_box_in_another_order(plan_of: Callable[..., dict[str, Any]]) -> None:
    """The ten gigabytes of the encoder fit the card that was to have it, and the other one too; the plan is another."""
    model = "black-forest-labs/FLUX.1-schnell"
    plan = plan_of("{gpus: [l40s, rtx-4090]}", "{device_map: {transformer: 0, text_encoder_2: 1}}", model)
    assert device_faults(plan, [L40S, RTX4090], [0, 1]) == []
    first, second = device_faults(plan, [RTX4090, L40S], [0, 1])
    assert first.startswith("cuda:0 is NVIDIA GeForce RTX 4090 with 23.64 GiB, and the plan was made for NVIDIA L40S")
    assert second.startswith("cuda:1 is NVIDIA L40S with 44.53 GiB, and the plan was made for NVIDIA GeForce RTX 4090")
    way_out = (
        "list `gpus` as torch numbers this machine (NVIDIA GeForce RTX 4090, NVIDIA L40S), or set `CUDA_DEVICE_ORDER"
    )
    assert way_out in first
    assert "`CUDA_VISIBLE_DEVICES`" in second


def test_the_numbers_of_a_recipe_count(plan_of: Callable[..., dict[str, Any]]) -> None:
    plan = plan_of("{gpus: [l40s, l40s], ids: [1, 3]}", "{data: 2, components: {text_encoder_2: {offload: model}}}")
    box = [L4, L40S, L4, L40S]
    assert device_faults(plan, box, [0, 1]) == []
    (found,) = device_faults(plan, [L40S, L40S, L40S, L4], [0, 1])
    assert found.startswith("cuda:3 is NVIDIA L4")


def test_devices_of_which_only_the_memory_is_known(plan_of: Callable[..., dict[str, Any]]) -> None:
    plan = plan_of("{kind: xpu, per_node: 1, memory: 64GiB}")
    assert plan["program"]["device_names"] == [[]]
    assert device_faults(plan, [MAX], [0]) == device_notes(plan, [MAX], [0]) == []
    (found,) = device_faults(plan, [Found("Intel(R) Arc(TM) A770 Graphics", 16 * 2**30)], [0])
    assert found.startswith("xpu:0 is Intel(R) Arc(TM) A770 Graphics with 16.00 GiB, and the plan was made for a ")


def test_a_cpu_is_not_asked(plan_of: Callable[..., dict[str, Any]]) -> None:
    plan = plan_of("{kind: cpu}")
    assert plan["program"]["device_names"] is None
    assert device_faults(plan, [], [0]) == []
