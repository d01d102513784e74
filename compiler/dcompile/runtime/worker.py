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
from typing import TYPE_CHECKING, Any

from dcompile.core.ending import end_rank
from dcompile.core.plan_schema import plan_fault
from dcompile.runtime import quiet
from dcompile.runtime.errors import EchoError, RunError, is_echo, record
from dcompile.runtime.made import Made, finish, say_complete

if TYPE_CHECKING:
    from dcompile.runtime.generate import Share
    from dcompile.runtime.ranks import Ranks


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
    parser.add_argument("--errors", type=Path, help="where the launcher reads this rank's error, and what was made")
    parser.add_argument("--launcher", type=int, help="the launcher's process; this rank does not outlive it")
    options = parser.parse_args(arguments)
    if options.launcher is not None:
        _die_with(options.launcher)
        os.dup2(sys.stderr.fileno(), 1)  # what libraries print is no result; those go to stdout
    try:
        _run(options)
    except Exception as error:
        rank = os.environ.get("RANK", "")
        left = record(options.errors, int(rank) if rank.isdigit() else 0, error)
        if options.errors is None:
            print(f"dcompile: rank {left.rank}: {left.sentence}", file=sys.stderr, flush=True)
        return 4
    return 0


def run(plan_path: Path, root: Path, *, overwrite: bool, progress: str) -> Made | None:
    """Joins the job, builds the pipeline where there is something to make, and makes this rank's pictures.

    Returns:
        What all ranks have made, on the first of them; None on the others.

    Raises:
        Exception: what goes wrong.
    """
    plan, plan_digest = read_plan(plan_path)
    os.environ.update({name: str(value) for name, value in plan["program"]["env"].items()})
    os.environ.pop("DIFFUSERS_ATTN_BACKEND", None)  # the plan names every backend
    quiet.for_good()
    from dcompile.runtime import generate, ranks

    program = plan["program"]
    place = ranks.join(program)
    try:
        share = generate.share_of(program, root, place, overwrite=overwrite)
        if share.total:
            _make(plan, root, place, share, plan_digest=plan_digest, progress=progress)
        elif place.rank == 0:
            say_complete(program, progress)
        made = finish(program, share.todo, share.total) if place.rank == 0 else None
        place.gather(None)
    except Exception as error:
        if not is_echo(error) and not place.is_first_failure():
            raise EchoError(str(error)) from error
        raise
    place.leave()
    return made


def _make(plan: dict[str, Any], root: Path, place: Ranks, share: Share, *, plan_digest: str, progress: str) -> None:
    from dcompile.runtime import generate, load, logical_devices, these_devices
    from dcompile.runtime.progress import Loading

    these_devices.check(plan, place.local_rank, says_notes=place.rank == 0 and progress != "none")
    with logical_devices.LogicalDevices() if place.has_logical_devices else nullcontext():
        held = sum(device["weight_bytes"] for device in plan["devices"] if device["rank"] == place.rank)
        with Loading(progress, held, is_speaker=place.rank == 0):
            pipeline = load.load_pipeline(plan, root, place)
        generate.generate(pipeline, plan, root, place, share, plan_digest=plan_digest, progress=progress)


def _run(options: argparse.Namespace) -> None:
    made = run(options.plan, options.root, overwrite=options.overwrite, progress=options.progress)
    if made is not None and options.errors is not None:
        made.leave_in(options.errors)


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
