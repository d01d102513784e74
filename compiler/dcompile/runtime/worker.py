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
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from dcompile.runtime.errors import record


def read_plan(path: Path) -> tuple[dict[str, Any], str]:
    """The plan, and the digest of its file."""
    text = path.read_bytes()
    return json.loads(text), f"sha256:{hashlib.sha256(text).hexdigest()}"


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
        left = record(options.errors, int(os.environ.get("RANK", "0")), error)
        if options.errors is None:
            print(f"dcompile: rank {left.rank}: {left.sentence}", file=sys.stderr, flush=True)
        return 4
    return 0


def run(plan_path: Path, root: Path, *, overwrite: bool, progress: str) -> None:
    """Joins the job, builds the pipeline and makes this rank's pictures; raises what goes wrong."""
    plan, plan_digest = read_plan(plan_path)
    os.environ.update({name: str(value) for name, value in plan["program"]["env"].items()})
    _quiet()
    from dcompile.runtime import generate, load, logical_devices, ranks

    place = ranks.join(plan["program"])
    logical = len(place.devices) > 1 and place.device.type == "cpu"
    with logical_devices.LogicalDevices() if logical else nullcontext():
        pipeline = load.load_pipeline(plan, root, place)
        generate.generate(pipeline, plan, root, place, plan_digest=plan_digest, overwrite=overwrite, progress=progress)
    place.leave()


def _run(options: argparse.Namespace) -> None:
    run(options.plan, options.root, overwrite=options.overwrite, progress=options.progress)


def _quiet() -> None:
    """Keeps the libraries' own bars and notes off the screen; errors still come through as exceptions."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("DIFFUSERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    warnings.filterwarnings("ignore", category=FutureWarning)
    import diffusers
    import transformers

    diffusers.utils.logging.disable_progress_bar()
    transformers.utils.logging.disable_progress_bar()


def _die_with(launcher: int) -> None:
    """Ends this process at once on Ctrl-C and when the launcher is gone, also inside a collective."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)

    def watch() -> None:
        while os.getppid() == launcher:
            time.sleep(0.5)
        os._exit(4)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # The interpreter's own end would wait for the process group's threads, which wait for ranks that are gone.
    os._exit(code)
