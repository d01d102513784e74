"""`devices.memory` as a list: a box of cards that no table has."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest
from dcompile.cli.explain import explanation
from dcompile.driver import Compiled
from dcompile.plan.auto.rank import ALIKE

FLUX = "version: 1\nmodel: {id: black-forest-labs/FLUX.1-dev}\nrun: {prompts: [a red fox, a blue jay]}\n"


def test_every_device_has_its_own(compiled: Callable) -> None:
    done = compiled(FLUX + "devices: {kind: cuda, memory: [48GiB, 24GiB]}\nparallel: {device_map: balanced}")
    assert done.is_valid
    devices = done.plan_json["devices"]
    assert [device["memory_bytes"] for device in devices] == [48 * 2**30, 24 * 2**30]
    assert "transformer" in devices[0]["components"]


def test_a_named_card_with_less_than_it_has(compiled: Callable) -> None:
    text = FLUX + "devices: {gpu: l40s, memory: [40GiB, 30GiB]}\nparallel: {device_map: balanced}"
    assert [device["memory_bytes"] for device in compiled(text).plan_json["devices"]] == [40 * 2**30, 30 * 2**30]


@pytest.mark.parametrize(
    ("devices", "code", "path", "words"),
    [
        ("{gpus: [l40s, l4], memory: [40GiB, 23GiB]}", "DC307", ("devices", "memory", 1), "more than a l4 has"),
        ("{gpus: [l40s, l4], memory: [40GiB]}", "DC407", ("devices", "memory"), "1 sizes, and `gpus` names 2"),
        ("{gpus: [l40s, l4], memory: [40GiB, 20GiB, 1GiB]}", "DC407", ("devices", "memory"), "3 sizes"),
        ("{kind: cuda, per_node: 3, memory: [40GiB, 20GiB]}", "DC407", ("devices", "memory"), "names 2 devices"),
        ("{kind: cuda, memory: [40GiB, 20GiB], ids: [1]}", "DC407", ("devices", "ids"), "the sizes of 2 devices"),
        ("{gpu: l40s, memory: [40GiB, 30GiB], ids: [1]}", "DC407", ("devices", "ids"), "`ids` names 1 device, "),
        ("{gpus: [l40s, l4], ids: [1]}", "DC407", ("devices", "ids"), "1 device, and `gpus` names 2 devices"),
        ("{gpus: [l40s], ids: [1, 2]}", "DC407", ("devices", "ids"), "2 devices, and `gpus` names 1 device"),
        ("{gpu: l40s, per_node: 2, ids: [1]}", "DC407", ("devices", "ids"), "`per_node` is 2"),
        ("{gpus: [l40s, l4], per_node: 1}", "DC407", ("devices", "gpus"), "`per_node` is 1"),
        ("{kind: cuda, memory: [20GiB, 0GiB]}", "DC205", ("devices", "memory", 1), "more than 0"),
    ],
)
def test_lists_that_do_not_agree(
    devices: str, code: str, path: tuple[str | int, ...], words: str, compiled: Callable
) -> None:
    found = [item for item in compiled(FLUX + f"devices: {devices}").diagnostics if item.code == code]
    assert [item.path for item in found] == [path]
    assert words in found[0].message


def test_ranks_with_equal_shares_are_told_what_stays_unused(compiled: Callable) -> None:
    found = compiled(FLUX + "devices: {kind: cuda, memory: [80GiB, 60GiB]}\nparallel: {tensor: 2}").diagnostics
    assert [item.code for item in found] == ["DC605"]
    assert "20.00 GiB of `cuda of 80GiB` stay unused" in found[0].message


def test_what_of_a_list_the_ids_ask_for_is_proposed(compiled: Callable) -> None:
    found = compiled(FLUX + "devices: {gpus: [l40s, l4], ids: [1]}\nparallel: auto").diagnostics
    assert [item.code for item in found] == ["DC407"]
    assert "`gpus: [l4]`" in found[0].hint


@pytest.mark.parametrize(
    ("gpus", "parallel"),
    [
        ("[l40s, l40s, l4]", "{context: {ulysses: 2}}"),
        ("[h100-sxm-80gb, h100-sxm-80gb, l4]", "{tensor: 2}"),
        ("[l40s, l40s, h100-pcie-80gb, h100-pcie-80gb]", "{data: 2, context: {ulysses: 2}}"),
    ],
)
def test_ranks_of_a_replica_that_are_alike_have_nothing_unequal(gpus: str, parallel: str, compiled: Callable) -> None:
    done = compiled(FLUX + f"devices: {{gpus: {gpus}}}\nparallel: {parallel}")
    assert "DC605" not in [item.code for item in done.diagnostics]
    unequal = compiled(FLUX + "devices: {gpus: [l40s, l20, l40s]}\nparallel: {context: {ulysses: 2}}")
    assert "DC605" in [item.code for item in unequal.diagnostics]


@pytest.mark.parametrize("parallel", ["{}", "{context: {ulysses: 2}}", "{tensor: 2}", "{data: 2}"])
def test_a_device_that_no_rank_uses_costs_no_time(parallel: str, compiled: Callable) -> None:
    """Nor does its kind decide which attention backends there are."""
    job = FLUX.replace("FLUX.1-dev", "FLUX.1-dev, dtype: bfloat16")
    alone, beside = (
        compiled(job + f"devices: {{gpus: [h100-sxm-80gb, h100-sxm-80gb{more}]}}\nparallel: {parallel}").plan_json
        for more in ("", ", l4, a10g")
    )
    assert alone["estimate"] == beside["estimate"]
    assert [one for one in alone["decisions"] if "attention" in one["what"]] == [
        one for one in beside["decisions"] if "attention" in one["what"]
    ]


def test_a_slower_device_of_another_rank_counts(compiled: Callable) -> None:
    """Every replica encodes and decodes on its own device: the job takes as long as on the slowest."""
    job = FLUX.replace("FLUX.1-dev", "FLUX.1-dev, dtype: bfloat16")
    devices = ("[l40s, h100-pcie-80gb]", "[h100-pcie-80gb, l40s]", "[l40s, l40s]")
    found = [compiled(job + f"devices: {{gpus: {one}}}\nparallel: {{data: 2}}").plan_json for one in devices]
    assert found[0]["estimate"] == found[1]["estimate"] == found[2]["estimate"]


def test_a_slower_link_of_another_device_counts(compiled: Callable) -> None:
    job = FLUX.replace("FLUX.1-dev", "FLUX.1-dev, dtype: bfloat16")
    ring = "parallel: {context: {ulysses: 2}}"
    devices = ("[h100-sxm-80gb, h100-pcie-80gb]", "[h100-pcie-80gb, h100-sxm-80gb]")
    found = [compiled(job + f"devices: {{gpus: {one}}}\n{ring}").plan_json["estimate"] for one in devices]
    assert found[0]["communication_seconds"] == found[1]["communication_seconds"]


@pytest.mark.parametrize(
    ("devices", "at", "keys", "more"),
    [
        ("gpus: [l4, l40s]", (1, 1), "gpus: [l40s], ids: [1]", ""),
        ("gpu: l40s, per_node: 2", (1, 1), "per_node: 1, ids: [1]", "gpu: l40s, "),
        ("gpu: l40s, ids: [4, 7]", (1, 1), "ids: [7]", "gpu: l40s, "),
        ("gpus: [l40s, l4, l40s]", (0, 2), "gpus: [l40s, l40s], ids: [0, 2]", ""),
        ("kind: cuda, memory: [1GiB, 48GiB]", (1, 1), 'memory: ["48GiB"], ids: [1]', "kind: cuda, "),
    ],
)
def test_how_to_have_a_device_that_is_not_the_first_is_said(
    devices: str, at: tuple[int, int], keys: str, more: str, compiled: Callable
) -> None:
    """As the hint has it, there is no gap and nothing that disagrees."""

    def found(devices: str, first: int, last: int) -> dict[str, str]:
        placed = f"{{transformer: {first}, text_encoder: {last}, text_encoder_2: {last}, vae: {last}}}"
        done = compiled(FLUX + f"devices: {{{devices}}}\nparallel: {{device_map: {placed}}}")
        return {item.code: item.hint for item in done.diagnostics}

    assert f"`{keys}`" in found(devices, *at)["DC462"]
    assert not {"DC462", "DC407"} & set(found(more + keys, 0, int(at[0] != at[1])))


@pytest.mark.parametrize(
    ("devices", "keys"),
    [
        ("gpus: [l40s, l40s, l4]", "gpus: [l40s, l40s]"),
        ("gpus: [l40s, l40s, l4], ids: [4, 2, 0]", "gpus: [l40s, l40s], ids: [4, 2]"),
        ("gpu: l40s, ids: [4, 2, 0]", "ids: [4, 2]"),
        ("gpu: l40s, per_node: 3, ids: [4, 2, 0]", "per_node: 2, ids: [4, 2]"),
        ("gpu: l40s, per_node: 3", "per_node: 2"),
        ("gpu: l40s, memory: [40GiB, 40GiB, 30GiB]", 'memory: ["40GiB", "40GiB"]'),
    ],
)
def test_how_to_have_fewer_devices_is_said_by_the_keys_that_count_them(
    devices: str, keys: str, compiled: Callable
) -> None:
    def found(devices: str) -> dict[str, str]:
        done = compiled(FLUX + f"devices: {{{devices}}}\nparallel: {{context: {{ulysses: 2}}}}")
        return {item.code: item.hint for item in done.diagnostics}

    assert f"`{keys}`" in found(devices)["DC408"]
    more = "gpu: l40s, " if "gpu:" in devices else ""
    assert not {"DC407", "DC408"} & set(found(more + keys))


# `parallel: auto` on a mixed box.

FOX = "version: 1\nmodel: {id: %s, dtype: bfloat16}\nrun: {prompts: [a fox], seed: 1}\n"
FLUX1, KLEIN = FOX % "black-forest-labs/FLUX.1-dev", FOX % "black-forest-labs/FLUX.2-klein-4B"


def decisions(done: Compiled, what: str) -> list[dict[str, Any]]:
    assert done.plan_json is not None, done.diagnostics
    return [one for one in done.plan_json["decisions"] if one["what"] == what]


@pytest.mark.parametrize(
    ("job", "gpus", "kind"),
    [
        (FLUX1, ("l4", "l40s", "l40s"), "ulysses"),
        (FLUX1, ("l4", "h100-sxm-80gb", "h100-sxm-80gb"), "ulysses"),
        (KLEIN, ("l4", "h100-pcie-80gb"), "single"),
        (FLUX1, ("rtx-4090", "l4", "rtx-4090"), "tensor"),
    ],
)
def test_the_choice_does_not_hang_on_the_order_in_which_devices_are_listed(
    job: str, gpus: tuple[str, ...], kind: str, compiled: Callable
) -> None:
    found = {}
    for order in sorted(set(permutations(gpus))):
        done = compiled(job + f"devices: {{gpus: [{', '.join(order)}]}}\nparallel: auto")
        assert done.choice is not None, done.diagnostics
        winner = done.choice.winner
        found[order] = (winner.candidate.kind, winner.candidate.devices, winner.seconds)
        assert "DC605" not in [item.code for item in done.diagnostics]
        ids = decisions(done, "devices.ids")
        assert bool(ids) == (winner.candidate.numbers is not None)
        assert done.plan_json["program"]["device_ids"] == (list(winner.candidate.ids) if ids else None)
    assert len(set(found.values())) == 1
    assert next(iter(found.values()))[0] == kind


LTX, CHROMA = FOX % "Lightricks/LTX-Video-0.9.7-dev", FOX % "lodestones/Chroma1-HD"
COG, FLUX2 = FOX % "zai-org/CogVideoX-5b", FOX % "black-forest-labs/FLUX.2-dev"
SMALL = "{prompts: [%s], height: 512, width: 512, seed: 1}"
STAYS, PLACED = "{auto: {forbid: [offload]}}", "{auto: {forbid: [offload, tensor, context]}}"


@pytest.mark.parametrize(
    ("job", "run", "gpus", "parallel"),
    [
        # Whole components on two devices each, beside which a replica of the same two kinds has room.
        (LTX, SMALL % "a, b", ("rtx-4090", "rtx-4090", "a100-sxm-40gb", "a100-sxm-40gb"), STAYS),
        # Cut over two, the better device of one replica with the worse one of the other.
        (COG, SMALL % "a, b, c, d", ("a100-sxm-40gb", "a100-sxm-40gb", "h100-pcie-80gb", "rtx-4090"), PLACED),
        # The faster at products is not the faster at all of this job.
        (CHROMA, SMALL % "a, b", ("l40s", "a100-sxm-40gb", "a100-sxm-40gb"), "auto"),
        # Replicas of one kind each.
        (FLUX2, "{prompts: [a, b, c, d], seed: 1}", ("rtx-a6000",) * 2 + ("a100-sxm-40gb",) * 3, "auto"),
    ],
)
def test_neither_does_that_of_replicas_and_of_cut_components(
    job: str, run: str, gpus: tuple[str, ...], parallel: str, compiled: Callable
) -> None:
    times = []
    for order in sorted(set(permutations(gpus)))[::2]:
        text = f"{job.partition('run: ')[0]}run: {run}\n"
        done = compiled(f"{text}devices: {{gpus: [{', '.join(order)}]}}\nparallel: {parallel}")
        assert done.choice is not None, done.diagnostics
        times.append(done.choice.winner.time)
    assert max(times) <= min(times) * (1 + ALIKE)


def test_the_plan_is_that_of_a_recipe_with_just_these_devices(compiled: Callable) -> None:
    auto = compiled(FLUX1 + "devices: {gpus: [l4, l40s, l40s]}\nparallel: auto")
    named = compiled(FLUX1 + "devices: {gpus: [l40s, l40s], ids: [1, 2]}\nparallel: {context: {ulysses: 2}}")
    assert named.diagnostics == auto.diagnostics == ()
    for key in ("mesh", "strategy", "devices", "components", "traffic", "estimate", "program"):
        assert auto.plan_json[key] == named.plan_json[key]
    (ids,) = decisions(auto, "devices.ids")
    assert ids["chosen"] == "[1, 2]"
    assert "`gpus: [l40s, l40s], ids: [1, 2]`" in ids["because"]
    assert decisions(auto, "devices")[0]["chosen"] == "2 of 3"
    assert decisions(auto, "parallel")[0]["chosen"] == "context: {ulysses: 2}, ids: [1, 2]"


def test_the_ids_of_the_recipe_are_those_that_are_chosen_from(compiled: Callable) -> None:
    done = compiled(KLEIN + "devices: {gpus: [l4, h100-pcie-80gb], ids: [6, 3]}\nparallel: auto")
    assert done.plan_json["program"]["device_ids"] == [3]
    assert done.choice.winner.candidate.text == "one device, ids: [3]"


def test_a_larger_and_slower_device_is_chosen_where_the_faster_is_too_small(compiled: Callable) -> None:
    """One RTX 5090 is faster than an L40S, and FLUX.1-dev does not fit on it whole."""
    forbid = "{auto: {forbid: [offload, device_map, tensor, context]}}"
    for gpus, ids in (("[rtx-5090, l40s]", [1]), ("[l40s, rtx-5090]", None)):
        done = compiled(FLUX1 + f"devices: {{gpus: {gpus}}}\nparallel: {forbid}")
        assert done.plan_json["program"]["device_ids"] == ids
        assert done.plan_json["devices"][0]["memory_bytes"] > 44 * 2**30


def test_devices_by_memory_alone_are_chosen_too(compiled: Callable) -> None:
    done = compiled(KLEIN + "devices: {kind: cuda, memory: [8GiB, 48GiB]}\nparallel: auto")
    assert done.plan_json["program"]["device_ids"] == [1]
    assert [device["memory_bytes"] for device in done.plan_json["devices"]] == [48 * 2**30]


@pytest.mark.parametrize(
    ("devices", "parallel"),
    [
        ("{gpus: [l4, l40s]}", "{auto: {fixed: {device_map: {transformer: 1, text_encoder: 0, vae: 0}}}}"),
        ("{gpus: [l4, l40s]}", "{auto: {fixed: {components: {vae: {device: 0}}}}}"),
        ("{gpus: [l4, l40s], nodes: 2}", "auto"),
        ("{gpus: [l40s, l4]}", "auto"),
        ("{gpu: l40s, per_node: 2}", "auto"),
    ],
)
def test_where_devices_are_named_by_number_or_the_first_are_the_best_they_stay(
    devices: str, parallel: str, compiled: Callable
) -> None:
    done = compiled(KLEIN + f"devices: {devices}\nparallel: {parallel}")
    assert done.choice is not None, done.diagnostics
    assert all(one.candidate.numbers is None for one in done.choice.judged) or "[l40s, l4]" in devices
    assert decisions(done, "devices.ids") == []
    assert done.plan_json["program"]["device_ids"] is None


def test_a_packing_may_have_the_denoiser_on_the_faster_device(compiled: Callable) -> None:
    """The emptiest packing has it on the larger one."""
    forbid = "{auto: {forbid: [context, tensor, offload]}}"
    job = FOX % "lodestones/Chroma1-HD"
    done = compiled(job + f"devices: {{gpus: [rtx-5090, l20]}}\nparallel: {forbid}")
    placed = {
        one.candidate.parallel.device_map["transformer"]
        for one in done.choice.judged
        if one.candidate.kind == "device_map" and one.checked is not None
    }
    assert placed == {0, 1}
    assert done.choice.winner.seconds == min(one.seconds for one in done.choice.judged if one.seconds is not None)


def test_what_would_change_the_choice_is_asked_of_the_whole_box(compiled: Callable) -> None:
    done = compiled(KLEIN + "devices: {gpus: [l4, h100-pcie-80gb]}\nparallel: auto")
    found = explanation(done)
    assert found["chosen"]["parallel"] == "one device, ids: [1]"
    assert all(one["parallel"] is not None for one in found["changes"])
    assert [one["what"] for one in found["decisions"]] == ["devices", "devices.ids"]
