"""Exact packing of components, and of a chain of blocks, onto devices. Pure arithmetic.

`pack` minimises the fullest device's load first and the number of moves between devices second, by branch and bound;
`cut` splits a chain into contiguous parts with the smallest largest load, by dynamic programming. A component that is
cut is a chain that `pack` keeps in mind: what lies whole goes where the chain leaves room.
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
    """Blocks of one component, in order, that lie on some devices, in order."""

    blocks: tuple[int, ...]
    devices: tuple[int, ...]

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
) -> dict[str, int] | None:
    """A device for each component, every one placed exactly once.

    Args:
        sizes: bytes of each component.
        start: bytes that already lie on each device.
        capacity: what loads are measured against; equal numbers mean that bytes alone count.
        fixed: components whose device is given.
        chains: components that are cut; `cut_all` places their blocks afterwards.
        below: how full the fullest device may not be: what is no better than a packing that is known is not looked for.

    Returns:
        The device of each component; None where nothing is better than `below`. The fullest device (load / capacity) is
        as empty as it can be; among equals, the assignment with fewer moves between neighbours in `sizes` (the order of
        execution) wins. With one chain this is the joint optimum; several are cut one after the other.
    """
    fixed = dict(fixed or {})
    names = list(sizes)
    free = sorted((name for name in names if name not in fixed), key=lambda name: (-sizes[name], names.index(name)))
    loads = list(start)
    for name, device in fixed.items():
        loads[device] += sizes[name]
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
        return _fullest(loads, capacity) > most or not all(
            _has_room(chain, of_chain, loads, capacity, most) for chain, of_chain in zip(chains, sums, strict=True)
        )

    def place_next(at: int, chosen: dict[str, int]) -> None:
        nonlocal best
        if cannot_win(best[0] if best is not None else below * (1 - 1e-12)):
            return
        if at == len(free):
            count = moves(chosen)
            if best is not None and count >= best[1] and cannot_win(best[0] * (1 - 1e-12)):
                return
            result = (_fullest(cut_all(chains, loads, capacity)[1], capacity), count)
            if best is None or result < best[:2]:
                best = (*result, dict(chosen))
            return
        name, seen = free[at], set()
        for device in sorted(range(len(loads)), key=lambda d: (loads[d] + sizes[name]) / capacity[d]):
            # An empty device is like any other empty one of its kind.
            alike = (loads[device], capacity[device], device if loads[device] or device in apart else -1)
            if alike in seen:
                continue
            seen.add(alike)
            loads[device] += sizes[name]
            place_next(at + 1, {**chosen, name: device})
            loads[device] -= sizes[name]

    place_next(0, fixed)
    return best[2] if best is not None else None


def _fullest(loads: Sequence[int], capacity: Sequence[float]) -> float:
    return max(load / room for load, room in zip(loads, capacity, strict=True))


def _has_room(chain: Chain, sums: Sequence[int], loads: Sequence[int], capacity: Sequence[float], most: float) -> bool:
    """Whether a chain fits where no device may be fuller than `most`: each device takes as many blocks as it can."""
    done = 0
    for device in chain.devices:
        room = most * capacity[device] * (1 + 1e-12) - loads[device]
        done = max(done, bisect_right(sums, sums[done] + room) - 1)
    return done == len(chain.blocks)


def cut_all(
    chains: Sequence[Chain], start: Sequence[int], capacity: Sequence[float]
) -> tuple[list[tuple[int, ...]], list[int]]:
    """The device of each block of each chain, cut one after the other, and what then lies on each device."""
    loads, devices = list(start), []
    for chain in chains:
        at = _cut(chain.blocks, tuple(loads[d] for d in chain.devices), tuple(capacity[d] for d in chain.devices))
        devices.append(tuple(chain.devices[i] for i in at))
        for device, size in zip(devices[-1], chain.blocks, strict=True):
            loads[device] += size
    return devices, loads


def cut(blocks: Sequence[int], start: Sequence[int], capacity: Sequence[float]) -> tuple[int, ...]:
    """The device of each block of a chain: contiguous ranges in the order of the devices.

    Args:
        blocks: bytes of each block, in order.
        start: bytes that already lie on each device.
        capacity: what loads are measured against.

    Returns:
        One device index for each block, never decreasing, with the fullest device as empty as it can be.
    """
    return _cut(tuple(blocks), tuple(start), tuple(capacity))


@lru_cache(maxsize=CUTS_KEPT)
def _cut(blocks: tuple[int, ...], start: tuple[int, ...], capacity: tuple[float, ...]) -> tuple[int, ...]:
    sums = [0]
    for size in blocks:
        sums.append(sums[-1] + size)
    count, last = len(blocks), len(start) - 1

    # fullest[d][i]: the best fullest load when blocks[:i] lie on devices 0...d; ends[d][i]: where device d starts.
    fullest = [[(start[0] + sums[i]) / capacity[0] for i in range(count + 1)]]
    starts = [[0] * (count + 1)]
    for device in range(1, last + 1):
        row, cuts, before = [], [], fullest[-1]
        for i in range(count + 1):
            # What lies before j grows with j and what lies on this device shrinks: the best cut is where they cross.
            def own(j: int, i: int = i, device: int = device) -> float:
                return (start[device] + sums[i] - sums[j]) / capacity[device]

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
