"""`devices.memory` as a list: a box of cards that no table has."""

from __future__ import annotations

from collections.abc import Callable

import pytest

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
