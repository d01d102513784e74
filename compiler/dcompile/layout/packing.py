"""Exact packing of components, and of a chain of blocks, onto devices. Pure arithmetic.

`pack` minimises the fullest device's load first and the number of devices used second, by branch and bound; `cut`
splits a chain into contiguous parts with the smallest largest load, by dynamic programming.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise


def pack(
    sizes: Mapping[str, int], start: Sequence[int], capacity: Sequence[float], fixed: Mapping[str, int] | None = None
) -> dict[str, int]:
    """A device for each component, every one placed exactly once.

    Args:
        sizes: bytes of each component.
        start: bytes that already lie on each device.
        capacity: what loads are measured against; equal numbers mean that bytes alone count.
        fixed: components whose device is given.

    Returns:
        The device of each component. The fullest device (load / capacity) is as empty as it can be; among equals, the
        assignment with fewer moves between neighbours in `sizes` (the order of execution) wins.
    """
    fixed = dict(fixed or {})
    names = list(sizes)
    free = sorted((name for name in names if name not in fixed), key=lambda name: (-sizes[name], names.index(name)))
    loads = list(start)
    for name, device in fixed.items():
        loads[device] += sizes[name]
    best: tuple[float, int, dict[str, int]] | None = None

    def moves(chosen: Mapping[str, int]) -> int:
        order = [chosen[name] for name in names]
        return sum(a != b for a, b in pairwise(order))

    def fullest() -> float:
        return max(load / room for load, room in zip(loads, capacity, strict=True))

    def place_next(at: int, chosen: dict[str, int]) -> None:
        nonlocal best
        now = fullest()
        if best is not None and now > best[0]:
            return
        if at == len(free):
            result = (now, moves(chosen))
            if best is None or result < best[:2]:
                best = (*result, dict(chosen))
            return
        name, seen = free[at], set()
        for device in sorted(range(len(loads)), key=lambda d: (loads[d] + sizes[name]) / capacity[d]):
            # An empty device is like any other empty one of its kind.
            alike = (loads[device], capacity[device], device if loads[device] else -1)
            if alike in seen:
                continue
            seen.add(alike)
            loads[device] += sizes[name]
            place_next(at + 1, {**chosen, name: device})
            loads[device] -= sizes[name]

    place_next(0, fixed)
    if best is None:
        raise AssertionError("a packing exists whenever there is a device")
    return best[2]


def cut(blocks: Sequence[int], start: Sequence[int], capacity: Sequence[float]) -> tuple[int, ...]:
    """The device of each block of a chain: contiguous ranges in the order of the devices.

    Args:
        blocks: bytes of each block, in order.
        start: bytes that already lie on each device.
        capacity: what loads are measured against.

    Returns:
        One device index for each block, never decreasing, with the fullest device as empty as it can be.
    """
    sums = [0]
    for size in blocks:
        sums.append(sums[-1] + size)
    count, last = len(blocks), len(start) - 1

    # fullest[d][i]: the best fullest load when blocks[:i] lie on devices 0...d; ends[d][i]: where device d starts.
    fullest = [[(start[0] + sums[i]) / capacity[0] for i in range(count + 1)]]
    starts = [[0] * (count + 1)]
    for device in range(1, last + 1):
        row, cuts = [], []
        for i in range(count + 1):
            options = (
                (max(fullest[-1][j], (start[device] + sums[i] - sums[j]) / capacity[device]), j) for j in range(i + 1)
            )
            value, j = min(options)
            row.append(value)
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
