"""What one rank of `dcompile probe` runs: it times collectives with the others, and the first writes down the times.

A collective of fewer ranks than there are devices runs in all groups of neighbours at once, as in a job, and the
slowest counts.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch.distributed as dist

from dcompile.core.ending import end_rank
from dcompile.core.files import write_whole
from dcompile.core.units import format_bytes, format_seconds
from dcompile.runtime.errors import RunError, record
from dcompile.runtime.ranks import BACKENDS

KIB = 2**10
SIZES = {
    "cpu": (64 * KIB, 512 * KIB, 4096 * KIB),
    "cuda": tuple(4**power * 64 * KIB for power in range(7)),
}
"""Bytes of a rank, from 64 KiB to 256 MiB: a step of FLUX.1 moves 1 to 36 MiB at a time."""
OPERATIONS = ("all_reduce", "all_gather", "all_to_all")
REPEATS, WARM = 7, 2
IN_A_ROW = 5
"""Collectives between two waits, where the device works by itself."""
STOOD_STILL = 5


def degrees(world: int) -> list[int]:
    """The numbers of ranks that are tried: powers of two, and all."""
    return sorted({2**power for power in range(1, 12) if 2**power <= world and world % 2**power == 0} | {world})


def main(arguments: list[str] | None = None) -> int:
    """Time everything; 0, or 4 with the error left in the run's folder."""
    parser = argparse.ArgumentParser(prog="dcompile.machine.collective_worker", description=__doc__)
    parser.add_argument("--kind", choices=tuple(BACKENDS), required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--errors", type=Path, required=True)
    options = parser.parse_args(arguments)
    rank = int(os.environ["RANK"])
    # A collective that never ends (peer access that is announced and does not work) cannot be left otherwise.
    watch = threading.Timer(options.seconds * 1.25, _give_up, (options, rank))
    watch.daemon = True
    watch.start()
    try:
        _join(options)
        points = _measure(options.kind, time.monotonic() + options.seconds)
        if rank == 0:
            write_whole(options.out, json.dumps(points))
        dist.barrier()
        dist.destroy_process_group()
    except Exception as error:
        record(options.errors, rank, error)
        return 4
    return 0


def _give_up(options: argparse.Namespace, rank: int) -> None:
    record(options.errors, rank, RunError(f"collectives stood still for {options.seconds:.0f} s"))
    os._exit(STOOD_STILL)


def _join(options: argparse.Namespace) -> None:
    if options.kind == "cpu":
        torch.set_num_threads(1)
        if sys.platform == "linux":
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    else:
        torch.accelerator.set_device_index(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group(BACKENDS[options.kind], timeout=timedelta(seconds=options.seconds * 2))


def _measure(kind: str, deadline: float) -> list[dict[str, Any]]:
    world, rank = dist.get_world_size(), dist.get_rank()
    points: list[dict[str, Any]] = []
    for degree in degrees(world):
        groups = [dist.new_group(range(first, first + degree)) for first in range(0, world, degree)]
        group = groups[rank // degree]
        for operation in OPERATIONS:
            for size in SIZES.get(kind, SIZES["cuda"]):
                if _is_late(deadline):
                    return points
                seconds = _seconds(operation, size, degree, group, kind)
                points.append({"operation": operation, "ranks": degree, "bytes": size, "seconds": seconds})
            if rank == 0:
                last = f"{format_seconds(points[-1]['seconds'])} for {format_bytes(points[-1]['bytes'])}"
                print(f"dcompile: {operation} of {degree} ranks: {last}", file=sys.stderr, flush=True)
    return points


def _is_late(deadline: float) -> bool:
    """Whether the time is up, by the first rank's clock."""
    late = torch.tensor([int(time.monotonic() > deadline)])
    dist.broadcast(late, 0)
    return bool(late.item())


def _seconds(operation: str, size: int, degree: int, group: Any, kind: str) -> float:
    """The median of one collective's repeats, each that of the slowest rank."""
    call = _call(operation, size // 2, degree, group, kind)
    in_a_row = 1 if kind == "cpu" else IN_A_ROW
    taken = []
    for repeat in range(WARM + REPEATS):
        dist.barrier()
        start = time.perf_counter()
        for _ in range(in_a_row):
            call()
        if kind != "cpu":
            torch.accelerator.synchronize()
        if repeat >= WARM:
            taken.append((time.perf_counter() - start) / in_a_row)
    times = torch.tensor(taken)
    dist.all_reduce(times, dist.ReduceOp.MAX)
    return float(f"{median(times.tolist()):.4g}")


def _call(operation: str, elements: int, degree: int, group: Any, kind: str) -> Callable[[], Any]:
    """One collective over tensors of 16 bits: `elements` before an all-reduce or all-to-all, after an all-gather."""
    elements = elements // degree * degree
    whole = torch.zeros(elements, dtype=torch.bfloat16, device=kind)
    if operation == "all_reduce":
        return lambda: dist.all_reduce(whole, group=group)
    if operation == "all_gather":
        part = torch.zeros(elements // degree, dtype=torch.bfloat16, device=kind)
        return lambda: dist.all_gather_single(whole, part, group=group)
    other = torch.empty_like(whole)
    return lambda: dist.all_to_all_single(other, whole, group=group)


if __name__ == "__main__":
    end_rank(main())
