"""`pack` and `cut` against brute force: every assignment of up to 8 components, one of them cut, to 4 devices."""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations_with_replacement, pairwise, product
from pathlib import Path

import numpy as np
import pytest
from dcompile.facts.registry import load_model
from dcompile.facts.resolve import resolve
from dcompile.layout.packing import Chain, cut, cut_all, pack
from dcompile.layout.placement import Needs, parts_of, place
from dcompile.layout.splits import split_components
from dcompile.layout.stored import Storage
from dcompile.recipe.model import Recipe
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

MOST_COMPONENTS, MOST_DEVICES = 8, 4
SIZES = st.lists(st.integers(0, 40), min_size=1, max_size=MOST_COMPONENTS)
ROOMS = st.lists(st.sampled_from([8, 16, 24, 40]), min_size=1, max_size=MOST_DEVICES)
LARGEST = {"sizes": [31, 17, 29, 5, 23, 11, 37, 2], "room": [24, 24, 16, 40]}


@lru_cache(maxsize=4)
def every_assignment(components: int, devices: int) -> np.ndarray:
    """All of them, one a row: the device of each component."""
    return np.indices((devices,) * components).reshape(components, devices**components).T


def every_load(sizes: list[int], assignments: np.ndarray, start: list[int]) -> np.ndarray:
    """What lies on each device under each assignment."""
    return np.stack([(assignments == device) @ np.array(sizes) + held for device, held in enumerate(start)], axis=1)


def fullest(sizes: list[int], devices: tuple[int, ...], start: list[int], room: list[int]) -> float:
    loads = list(start)
    for size, device in zip(sizes, devices, strict=True):
        loads[device] += size
    return max(load / most for load, most in zip(loads, room, strict=True))


def named(sizes: list[int]) -> dict[str, int]:
    return {f"part{i}": size for i, size in enumerate(sizes)}


def starts(room: list[int]) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, 20), min_size=len(room), max_size=len(room))


@st.composite
def jobs(draw: st.DrawFn) -> tuple[list[int], list[int], list[int], dict[str, int]]:
    """Sizes, room and start of each device, and components whose device is given."""
    sizes, room = draw(SIZES), draw(ROOMS)
    names = st.sampled_from(sorted(named(sizes)))
    return sizes, room, draw(starts(room)), draw(st.dictionaries(names, st.integers(0, len(room) - 1), max_size=3))


@settings(max_examples=150, deadline=None)
@given(job=jobs())
@example(job=(LARGEST["sizes"], LARGEST["room"], [0, 3, 0, 7], {}))
@example(job=(LARGEST["sizes"], [24] * 4, [0] * 4, {"part3": 1}))
def test_pack_is_as_good_as_brute_force(job: tuple[list[int], list[int], list[int], dict[str, int]]) -> None:
    sizes, room, start, fixed = job
    chosen = pack(named(sizes), start, room, fixed)
    assert set(chosen) == set(named(sizes))
    assert fixed.items() <= chosen.items()
    every = every_assignment(len(sizes), len(room))
    for name, device in fixed.items():
        every = every[every[:, int(name.removeprefix("part"))] == device]
    best = (every_load(sizes, every, start) / np.array(room)).max(axis=1).min()
    got = tuple(chosen[name] for name in named(sizes))
    assert fullest(sizes, got, start, room) == best


@settings(max_examples=60, deadline=None)
@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=MOST_COMPONENTS), room=ROOMS)
@example(**LARGEST)
@example(sizes=[7, 7, 7, 7, 3, 3, 3, 3], room=[24] * 4)
def test_pack_moves_least_among_equals(sizes: list[int], room: list[int]) -> None:
    chosen = pack(named(sizes), [0] * len(room), room)
    got = [chosen[name] for name in named(sizes)]
    every = every_assignment(len(sizes), len(room))
    loads = (every_load(sizes, every, [0] * len(room)) / np.array(room)).max(axis=1)
    moves = (every[:, 1:] != every[:, :-1]).sum(axis=1)
    assert fullest(sizes, tuple(got), [0] * len(room), room) == loads.min()
    assert sum(a != b for a, b in pairwise(got)) == moves[loads == loads.min()].min()


@settings(max_examples=150, deadline=None)
@given(blocks=st.lists(st.integers(0, 40), max_size=12), room=ROOMS, data=st.data())
def test_cut_is_as_good_as_brute_force(blocks: list[int], room: list[int], data: st.DataObject) -> None:
    start = data.draw(starts(room))
    devices = cut(blocks, start, room)
    assert len(devices) == len(blocks)
    assert list(devices) == sorted(devices)
    every = combinations_with_replacement(range(len(room)), len(blocks))
    assert fullest(blocks, devices, start, room) == min(fullest(blocks, way, start, room) for way in every)


@settings(max_examples=120, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 40), max_size=MOST_COMPONENTS - 1),
    blocks=st.lists(st.integers(1, 20), max_size=6),
    room=st.lists(st.sampled_from([8, 16, 24, 40]), min_size=2, max_size=MOST_DEVICES),
    data=st.data(),
)
def test_pack_and_cut_together_are_as_good_as_brute_force(
    sizes: list[int], blocks: list[int], room: list[int], data: st.DataObject
) -> None:
    """One component is cut into contiguous ranges of its blocks; what of it is no block lies on its first device."""
    on = data.draw(st.permutations(range(len(room))))[: data.draw(st.integers(2, len(room)))]
    start = [data.draw(st.integers(0, 20)) if device == on[0] else 0 for device in range(len(room))]
    chain = Chain(tuple(blocks), tuple(on))
    chosen = pack(named(sizes), start, room, chains=[chain])
    loads = list(start)
    for name, device in chosen.items():
        loads[device] += named(sizes)[name]
    (at,), loads, _ = cut_all([chain], loads, room)
    assert len(at) == len(blocks)
    order = [on.index(device) for device in at]
    assert order == sorted(order)
    assert sum(loads) == sum(start) + sum(sizes) + sum(blocks)
    whole = every_load(sizes, every_assignment(len(sizes), len(room)), start)
    ways = np.array(list(combinations_with_replacement(range(len(on)), len(blocks))), dtype=int)
    ranges = every_load(blocks, np.array(on)[ways], [0] * len(room))
    best = min((((whole + cut_so) / np.array(room)).max(axis=1)).min() for cut_so in ranges)
    assert max(load / most for load, most in zip(loads, room, strict=True)) == best


def every_peak(peaks: list[int], assignments: np.ndarray, start: list[int]) -> np.ndarray:
    """The largest peak on each device under each assignment."""
    of_device = [
        np.maximum(((assignments == device) * np.array(peaks, dtype=int)).max(axis=1, initial=0), held)
        for device, held in enumerate(start)
    ]
    return np.stack(of_device, axis=1)


@settings(max_examples=150, deadline=None)
@given(job=jobs(), data=st.data())
@example(job=(LARGEST["sizes"], LARGEST["room"], [0, 3, 0, 7], {}), data=None)
def test_pack_with_peaks_is_as_good_as_brute_force(
    job: tuple[list[int], list[int], list[int], dict[str, int]], data: st.DataObject | None
) -> None:
    """A load is every weight of a device and the largest peak among what lies there; moves decide among equals."""
    sizes, room, start, fixed = job
    peaks, start_peaks = [13, 0, 2, 40, 1, 9, 3, 25][: len(sizes)], [5] * len(room)
    if data is not None:
        peaks = data.draw(st.lists(st.integers(0, 40), min_size=len(sizes), max_size=len(sizes)))
        start_peaks = data.draw(starts(room))
    chosen = pack(named(sizes), start, room, fixed, peaks=named(peaks), start_peaks=start_peaks)
    every = every_assignment(len(sizes), len(room))
    for name, device in fixed.items():
        every = every[every[:, int(name.removeprefix("part"))] == device]
    loads = every_load(sizes, every, start) + every_peak(peaks, every, start_peaks)
    full = (loads / np.array(room)).max(axis=1)
    moves = (every[:, 1:] != every[:, :-1]).sum(axis=1)
    got = [chosen[name] for name in named(sizes)]
    (mine,) = np.flatnonzero((every == np.array(got)).all(axis=1))
    assert full[mine] == full.min()
    assert moves[mine] == moves[full == full.min()].min()


@settings(max_examples=120, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 40), max_size=MOST_COMPONENTS - 2),
    blocks=st.lists(st.integers(1, 20), max_size=6),
    peak=st.integers(0, 40),
    room=st.lists(st.sampled_from([8, 16, 24, 40]), min_size=2, max_size=MOST_DEVICES),
    data=st.data(),
)
def test_pack_and_cut_with_peaks_are_as_good_as_brute_force(
    sizes: list[int], blocks: list[int], peak: int, room: list[int], data: st.DataObject
) -> None:
    """The peak of a component that is cut comes to every device that holds a block of it."""
    on = data.draw(st.permutations(range(len(room))))[: data.draw(st.integers(2, len(room)))]
    peaks = data.draw(st.lists(st.integers(0, 40), min_size=len(sizes), max_size=len(sizes)))
    nothing, first = [0] * len(room), [peak if device == on[0] else 0 for device in range(len(room))]
    chain = Chain(tuple(blocks), tuple(on), peak)
    chosen = pack(named(sizes), nothing, room, chains=[chain], peaks=named(peaks), start_peaks=first)
    loads, tops = list(nothing), list(first)
    for name, device in chosen.items():
        loads[device] += named(sizes)[name]
        tops[device] = max(tops[device], named(peaks)[name])
    _, loads, tops = cut_all([chain], loads, room, tops)
    every = every_assignment(len(sizes), len(room))
    weights, largest = every_load(sizes, every, nothing), every_peak(peaks, every, first)
    best = np.inf
    for way in combinations_with_replacement(on, len(blocks)):
        cut_so, brings = list(nothing), list(nothing)
        for size, device in zip(blocks, way, strict=True):
            cut_so[device] += size
            brings[device] = peak
        full = (weights + cut_so + np.maximum(largest, brings)) / np.array(room)
        best = min(best, full.max(axis=1).min())
    assert max((load + top) / most for load, top, most in zip(loads, tops, room, strict=True)) == best


def test_what_lies_whole_goes_where_a_cut_component_leaves_room() -> None:
    """Qwen-Image on three cards of 24 GB: cut first, the encoder would come on top of a third of the transformer."""
    chain = Chain((63,) * 60, (0, 1, 2))
    chosen = pack({"text_encoder": 1545, "vae": 24}, [0, 0, 0], [2400] * 3, chains=[chain])
    loads = [sum({"text_encoder": 1545, "vae": 24}[name] for name in chosen if chosen[name] == d) for d in range(3)]
    assert max(cut_all([chain], loads, [2400] * 3)[1]) == 1797
    assert max(cut_all([chain], [0, 0, 0], [2400] * 3)[1]) + 1545 > 2400


# Section "placement" of accelerate 1.15, `utils/modeling.py:934`: blocks, devices, and the fullest device of its
# `balanced` (which reserves the largest block on the first device, and can leave the last one empty).
CHAINS = {
    "F": (4, 10, 2, 20, 20),
    "G": (8, 10, 4, 30, 20),
    "G'": (12, 10, 4, 40, 30),
    "G''": (60, 10, 4, 160, 150),
    "J": (6, 10, 2, 60, 30),
}


@pytest.mark.parametrize("case", CHAINS)
def test_chains_that_accelerate_gets_wrong(case: str) -> None:
    count, size, devices, library, best = CHAINS[case]
    at = cut([size] * count, [0] * devices, [1.0] * devices)
    held = [size * at.count(device) for device in range(devices)]
    assert max(held) == best <= library
    assert min(held) > 0


def test_a_tail_goes_to_the_device_that_has_room() -> None:
    """Accelerate never returns to an earlier device, and puts a tail on the CPU; ours stays within the devices."""
    chain, room = [4, 30, 4, 4], [40, 33]
    at = cut(chain, [0, 0], room)
    held = [sum(size for size, device in zip(chain, at, strict=True) if device == d) for d in (0, 1)]
    assert held == [34, 8]
    sizes = {"tail": 10}
    assert pack(sizes, held, room) == {"tail": 1}


# What diffusers' `balanced` does with these, and the best by exhaustive search.
BALANCED = {
    # The library loses the transformer. Nothing fits whole, so the fit rule refuses the best there is.
    "A": ([30, 28, 11, 1], [24, 24], {31, 39}),
    # The library leaves 5 on the CPU. Both devices can be filled to the last byte at most.
    "B": ([10, 7, 5, 1], [16, 8], {16, 7}),
    # The library gives 16 and 8.
    "C": ([12, 3, 3, 2, 2, 2], [24, 24], {12}),
    # The library loses 9 and leaves 8 on the CPU. Loads are judged against each device's own room.
    "D": ([16, 10, 9, 8], [40, 10], {35, 8}),
    # The library is at the optimum of the peak.
    "E": ([1610, 950, 140, 25, 17], [2400, 2400, 2400], None),
}


@pytest.mark.parametrize("case", BALANCED)
def test_cases_that_the_library_gets_wrong(case: str) -> None:
    sizes, room, loads = BALANCED[case]
    chosen = pack(named(sizes), [0] * len(room), room)
    held = [sum(size for name, size in named(sizes).items() if chosen[name] == d) for d in range(len(room))]
    assert sum(held) == sum(sizes)
    every = product(range(len(room)), repeat=len(sizes))
    assert max(h / r for h, r in zip(held, room, strict=True)) == min(
        fullest(sizes, devices, [0] * len(room), room) for devices in every
    )
    if loads is not None:
        assert set(held) == loads
    else:
        assert max(held) == 1610


def test_a_fixed_component_stays_even_where_that_is_worse() -> None:
    assert pack({"a": 10, "b": 10}, [0, 0], [24, 24], {"a": 0, "b": 0}) == {"a": 0, "b": 0}


def test_more_components_than_any_pipeline_has_are_packed_in_no_time() -> None:
    sizes = {f"part{i}": 100 + 37 * i % 53 for i in range(14)}
    chosen = pack(sizes, [0] * 4, [24.0] * 4)
    assert set(chosen) == set(sizes)


@settings(max_examples=60, deadline=None)
@given(job=jobs(), share=st.sampled_from([0.5, 0.9, 1.0, 1.1]))
def test_what_is_no_better_than_a_known_packing_is_not_looked_for(
    job: tuple[list[int], list[int], list[int], dict[str, int]], share: float
) -> None:
    sizes, room, start, fixed = job
    best = pack(named(sizes), start, room, fixed)
    got = fullest(sizes, tuple(best[name] for name in named(sizes)), start, room)
    assume(got)
    assert pack(named(sizes), start, room, fixed, below=got * share) == (best if share > 1 else None)


def test_a_tail_goes_behind_the_last_block_only_where_that_is_better() -> None:
    """Qwen-Image: 30 blocks on each of two, and the embedders against the norm; but a device that is full anyhow."""
    component = load_model("Qwen/Qwen-Image").components["transformer"]
    parts = parts_of(component, Storage("bfloat16"))
    assert list(parts.tail) == ["norm_out", "proj_out"]
    for devices, encoder, behind in ((2, 2, True), (4, 0, True), (4, 3, False)):
        recipe = Recipe.model_validate(
            {
                "version": 1,
                "model": {"id": "Qwen/Qwen-Image", "dtype": "bfloat16"},
                "devices": {"kind": "cuda", "per_node": max(devices, encoder + 1), "memory": "48GiB"},
                "parallel": {
                    "device_map": {"transformer": tuple(range(devices)), "text_encoder": encoder, "vae": encoder}
                },
                "run": {"prompts": ("a",)},
            }
        )
        facts, _ = resolve(recipe, Path())
        assert facts is not None
        blocks = place(recipe, facts, split_components(recipe, facts.model), Needs()).blocks_of["transformer"]
        assert {blocks["img_in"], blocks["txt_in"]} == {0}
        assert (blocks["proj_out"] == devices - 1) == behind
