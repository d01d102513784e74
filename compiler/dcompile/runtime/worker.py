"""What one rank runs: `python -m dcompile.runtime.worker --plan build/NAME/plan.json --root RECIPE_FOLDER`."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from dcompile.core.ending import end_rank
from dcompile.core.plan_schema import plan_fault
from dcompile.runtime import quiet
from dcompile.runtime.errors import EchoError, RunError, is_echo, record


def read_plan(path: Path) -> tuple[dict[str, Any], str]:
    """The plan, and the digest of its file.

    Raises:
        RunError: where the file is no plan of this version: cut off, edited by hand, or another version's.
    """
    text = path.read_bytes()
    try:
        plan = json.loads(text)
    except ValueError as error:
        raise RunError(f"the plan `{path}` is no JSON ({error}): compile the recipe again") from error
    fault = plan_fault(plan)
    if fault is not None:
        raise RunError(f"the plan `{path}` is not by its schema ({fault}): compile the recipe again")
    return plan, f"sha256:{hashlib.sha256(text).hexdigest()}"


def main(arguments: list[str] | None = None) -> int:
    """Runs this rank's part; 0, or 4 with the error left in the run's folder."""
    parser = argparse.ArgumentParser(prog="dcompile.runtime.worker", description=__doc__)
    parser.add_argument("--plan", type=Path, required=True)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--overwrite", action="store_true")
    parser.add_argument("--progress", default="auto", choices=["auto", "bar", "plain", "none"])
    parser.add_argument("--errors", type=Path, help="where the launcher reads this rank's error")
    parser.add_argument("--launcher", type=int, help="the launcher's process; this rank does not outlive it")
    options = parser.parse_args(arguments)
    if options.launcher is not None:
        _die_with(options.launcher)
    try:
        _run(options)
    except Exception as error:
        rank = os.environ.get("RANK", "")
        left = record(options.errors, int(rank) if rank.isdigit() else 0, error)
        if options.errors is None:
            print(f"dcompile: rank {left.rank}: {left.sentence}", file=sys.stderr, flush=True)
        return 4
    return 0


def run(plan_path: Path, root: Path, *, overwrite: bool, progress: str) -> None:
    """Joins the job, builds the pipeline and makes this rank's pictures; raises what goes wrong."""
    plan, plan_digest = read_plan(plan_path)
    os.environ.update({name: str(value) for name, value in plan["program"]["env"].items()})
    os.environ.pop("DIFFUSERS_ATTN_BACKEND", None)  # the plan names every backend
    quiet.for_good()
    from dcompile.runtime import generate, load, logical_devices, ranks, these_devices
    from dcompile.runtime.progress import Loading

    place = ranks.join(plan["program"])
    try:
        these_devices.check(plan, place.local_rank, says_notes=place.rank == 0 and progress != "none")
        with logical_devices.LogicalDevices() if place.has_logical_devices else nullcontext():
            held = sum(device["weight_bytes"] for device in plan["devices"] if device["rank"] == place.rank)
            with Loading(progress, held, is_speaker=place.rank == 0):
                pipeline = load.load_pipeline(plan, root, place)
            generate.generate(
                pipeline, plan, root, place, plan_digest=plan_digest, overwrite=overwrite, progress=progress
            )
    except Exception as error:
        if not is_echo(error) and not place.is_first_failure():
            raise EchoError(str(error)) from error
        raise
    place.leave()


def _run(options: argparse.Namespace) -> None:
    run(options.plan, options.root, overwrite=options.overwrite, progress=options.progress)


def _die_with(launcher: int) -> None:
    """Ends this process at once on Ctrl-C and when the launcher is gone, also inside a collective."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)

    def watch() -> None:
        while os.getppid() == launcher:
            time.sleep(0.5)
        os._exit(4)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    end_rank(main())
