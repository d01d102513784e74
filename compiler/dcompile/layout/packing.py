"""Exact packing of components, and of a chain of blocks, onto devices. Pure arithmetic.

`pack` minimises the fullest device's load first and the number of moves between devices second, by branch and bound; a
load is weights, and where they are given the largest peak of what lies there. `cut` splits a chain into contiguous
parts with the smallest largest load, by dynamic programming. A component that is cut is a chain that `pack` keeps in
mind: what lies whole goes where the chain leaves room.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from math import inf

MOST_EXACT = 4
"""Devices of a chain up to which each is tried; of more, those that are equally full count as one."""

CUTS_KEPT = 1024
"""Cuts that are kept: a search asks for the same ones again and again."""


@dataclass(frozen=True)
class Chain:
    """Blocks of one component, in order, that lie on some devices, in order.

    Attributes:
        blocks: bytes of each.
        devices: where they may lie.
        peak: bytes that a device holds beside its weights while a block on it is called.
    """

    blocks: tuple[int, ...]
    devices: tuple[int, ...]
    peak: int = 0

    @property
    def sums(self) -> tuple[int, ...]:
        """Bytes of the first 0, 1, 2 ... blocks."""
        return tuple(accumulate(self.blocks, initial=0))


def pack(
    sizes: Mapping[str, int],
    start: Sequence[int],
    capacity: Sequence[float],
    fixed: Mapping[str, int] | None = None,
    chains: Sequence[Chain] = (),
    below: float = inf,
    peaks: Mapping[str, int] | None = None,
    start_peaks: Sequence[int] | None = None,
) -> dict[str, int] | None:
    """A device for each component, every one placed exactly once.

    Args:
        sizes: bytes of each component.
        start: bytes that already lie on each device.
        capacity: what loads are measured against; equal numbers mean that bytes alone count.
        fixed: components whose device is given.
        chains: components that are cut; `cut_all` places their blocks afterwards.
        below: how full the fullest device may not be: what is no better than a packing that is known is not looked for.
        peaks: bytes that a component needs beside the weights while it is called; none where only weights count.
        start_peaks: the largest such peak of what already lies on each device.

    Returns:
        The device of each component; None where nothing is better than `below`. The load of a device is all weights on
        it and the largest peak among them: components are called one after the other. The fullest device (load /
        capacity) is as empty as it can be; among equals, the assignment with fewer moves between neighbours in `sizes`
        (the order of execution) wins. With one chain this is the joint optimum; several are cut one after the other.
    """
    fixed, peaks = dict(fixed or {}), peaks or {}
    names = list(sizes)
    peak_of = {name: peaks.get(name, 0) for name in names}
    alone = {name: sizes[name] + peak_of[name] for name in names}
    free = sorted((name for name in names if name not in fixed), key=lambda name: (-alone[name], names.index(name)))
    loads, tops = list(start), list(start_peaks or [0] * len(start))
    for name, device in fixed.items():
        loads[device] += sizes[name]
        tops[device] = max(tops[device], peak_of[name])
    sums = [chain.sums for chain in chains]
    apart = {
        device for chain in chains for device in (chain.devices if len(loads) <= MOST_EXACT else chain.devices[:1])
    }
    best: tuple[float, int, dict[str, int]] | None = None

    def moves(chosen: Mapping[str, int]) -> int:
        order = [chosen[name] for name in names]
        return sum(a != b for a, b in pairwise(order))

    def cannot_win(most: float) -> bool:
        """Whether what is placed so far is fuller than `most` already, or leaves too little room for a chain."""
        return fullness(loads, tops, capacity) > most or not all(
            _has_room(chain, of_chain, loads, tops, capacity, most)
            for chain, of_chain in zip(chains, sums, strict=True)
        )

    def place_next(at: int, chosen: dict[str, int]) -> None:
        nonlocal best
        if cannot_win(best[0] if best is not None else below * (1 - 1e-12)):
            return
        if at == len(free):
            count = moves(chosen)
            if best is not None and count >= best[1] and cannot_win(best[0] * (1 - 1e-12)):
                return
            _, held, most = cut_all(chains, loads, capacity, tops)
            result = (fullness(held, most, capacity), count)
            if best is None or result < best[:2]:
                best = (*result, dict(chosen))
            return
        name, seen = free[at], set()
        size, peak = sizes[name], peak_of[name]
        for device in sorted(range(len(loads)), key=lambda d: (loads[d] + size + max(tops[d], peak)) / capacity[d]):
            # An empty device is like any other empty one of its kind.
            is_used = loads[device] or tops[device] or device in apart
            alike = (loads[device], tops[device], capacity[device], device if is_used else -1)
            if alike in seen:
                continue
            seen.add(alike)
            before = tops[device]
            loads[device] += size
            tops[device] = max(before, peak)
            place_next(at + 1, {**chosen, name: device})
            loads[device] -= size
            tops[device] = before

    place_next(0, fixed)
    return best[2] if best is not None else None


def fullness(loads: Sequence[int], tops: Sequence[int], capacity: Sequence[float]) -> float:
    """How full the fullest device is: what lies there, and the largest peak of it, over what it can hold."""
    return max((load + top) / room for load, top, room in zip(loads, tops, capacity, strict=True))


def _has_room(
    chain: Chain,
    sums: Sequence[int],
    loads: Sequence[int],
    tops: Sequence[int],
    capacity: Sequence[float],
    most: float,
) -> bool:
    """Whether a chain fits where no device may be fuller than `most`: each device takes as many blocks as it can."""
    done = 0
    for device in chain.devices:
        room = most * capacity[device] * (1 + 1e-12) - loads[device] - max(tops[device], chain.peak)
        done = max(done, bisect_right(sums, sums[done] + room) - 1)
    return done == len(chain.blocks)


def cut_all(
    chains: Sequence[Chain], start: Sequence[int], capacity: Sequence[float], start_peaks: Sequence[int] | None = None
) -> tuple[list[tuple[int, ...]], list[int], list[int]]:
    """The device of each block of each chain, cut one after the other; and what then lies on each device, and the
    largest peak of it."""
    loads, tops, devices = list(start), list(start_peaks or [0] * len(start)), []
    for chain in chains:
        at = _cut(
            chain.blocks,
            tuple(loads[d] + tops[d] for d in chain.devices),
            tuple(capacity[d] for d in chain.devices),
            tuple(max(0, chain.peak - tops[d]) for d in chain.devices),
        )
        devices.append(tuple(chain.devices[i] for i in at))
        for device, size in zip(devices[-1], chain.blocks, strict=True):
            loads[device] += size
            tops[device] = max(tops[device], chain.peak)
    return devices, loads, tops


def cut(blocks: Sequence[int], start: Sequence[int], capacity: Sequence[float]) -> tuple[int, ...]:
    """The device of each block of a chain: contiguous ranges in the order of the devices.

    Args:
        blocks: bytes of each block, in order.
        start: bytes that already lie on each device.
        capacity: what loads are measured against.

    Returns:
        One device index for each block, never decreasing, with the fullest device as empty as it can be.
    """
    return _cut(tuple(blocks), tuple(start), tuple(capacity), (0,) * len(start))


@lru_cache(maxsize=CUTS_KEPT)
def _cut(
    blocks: tuple[int, ...], start: tuple[int, ...], capacity: tuple[float, ...], first: tuple[int, ...]
) -> tuple[int, ...]:
    """`cut`, where the first block on each device brings `first` bytes with it."""
    sums = [0]
    for size in blocks:
        sums.append(sums[-1] + size)
    count, last = len(blocks), len(start) - 1

    # fullest[d][i]: the best fullest load when blocks[:i] lie on devices 0...d; ends[d][i]: where device d starts.
    fullest = [[(start[0] + (first[0] if i else 0) + sums[i]) / capacity[0] for i in range(count + 1)]]
    starts = [[0] * (count + 1)]
    for device in range(1, last + 1):
        row, cuts, before = [], [], fullest[-1]
        for i in range(count + 1):
            # What lies before j grows with j and what lies on this device shrinks: the best cut is where they cross.
            def own(j: int, i: int = i, device: int = device) -> float:
                return (start[device] + (first[device] if j < i else 0) + sums[i] - sums[j]) / capacity[device]

            j = bisect_left(range(i), True, key=lambda j: before[j] >= own(j))
            if j and own(j - 1) <= max(before[j], own(j)):
                j -= 1
                while j and own(j - 1) == own(j):
                    j -= 1
            row.append(max(before[j], own(j)))
            cuts.append(j)
        fullest.append(row)
        starts.append(cuts)
    devices = [0] * count
    end = count
    for device in range(last, -1, -1):
        begin = starts[device][end] if device else 0
        devices[begin:end] = [device] * (end - begin)
        end = begin
    return tuple(devices)
