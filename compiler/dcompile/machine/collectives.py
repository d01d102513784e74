"""How long collectives between this machine's devices take: ranks are started as for a job, and time each other."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from dcompile.runtime.errors import RunError, first_error
from dcompile.runtime.launch import start_ranks

Point = dict[str, str | int | float]
"""One entry of a recipe's `collectives`."""


def measure_collectives(kind: str, ranks: int, limit_seconds: float) -> list[Point]:
    """Collectives of 2, 4, 8 ... ranks by size.

    Args:
        kind: `cuda`, `xpu` or `cpu`, which is what the backend goes by (nccl, xccl, gloo).
        ranks: devices, one rank on each.
        limit_seconds: when ranks stop, with what they have; a quarter later they are ended, wherever they are.

    Raises:
        RunError: where the ranks could not be started or stood still; its text says why.
        KeyboardInterrupt: where it was interrupted.
    """
    with tempfile.TemporaryDirectory(prefix="dcompile-probe-") as folder:
        out = Path(folder) / "points.json"
        arguments = ["-m", "dcompile.machine.collective_worker", "--kind", kind, "--out", str(out)]
        arguments += ["--seconds", str(limit_seconds), "--errors", folder]
        failure = start_ranks(arguments, ranks, Path(folder))
        if failure is not None:
            raise RunError((first_error(Path(folder)) or failure).sentence)
        points: list[Point] = json.loads(out.read_text(encoding="utf-8"))
        return points
