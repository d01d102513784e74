"""Starts a plan's ranks on this machine, or joins the job that torchrun or srun has started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dcompile.core.ending import end_rank
from dcompile.runtime import outputs, worker
from dcompile.runtime.errors import EchoError, RankError, RunError, first_error, record
from dcompile.runtime.job import surrounding_job
from dcompile.runtime.made import Made, finish, left_in, say_complete
from dcompile.runtime.todo import todo_of

FAILED, INTERRUPTED = 4, 130


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
        code: 0 where every picture is there, 4 where the run failed, 130 where it was interrupted.
        seconds: from the start to the end, loading included.
        made: what was made, where all went well; only the first rank of a job knows.
        fault: what went wrong, on the rank that says it.
        rank: this process's rank in a job that a launcher has started, and `world` its size; None where the ranks were
            started here.
    """

    code: int
    seconds: float
    made: Made | None = None
    fault: RankError | None = None
    rank: int | None = None
    world: int = 1

    def end(self) -> int:
        """The exit code; a rank of a launcher's job ends here, with all that it has printed."""
        if self.rank is not None and (self.world > 1 or self.code == FAILED) and self.code != INTERRUPTED:
            end_rank(self.code)
        return self.code


def run_plan(
    plan_path: Path, root: Path, *, overwrite: bool = False, progress: str = "auto", traceback: bool = False
) -> int:
    """Runs `plan.json` and says on stderr what went wrong.

    Args:
        plan_path: the compiled plan.
        root: the recipe's folder, where relative model paths start.
        overwrite: make pictures again that are complete.
        progress: `auto` (a bar on a terminal, lines elsewhere), `bar`, `plain` or `none`.
        traceback: print the failing rank's traceback under its sentence.

    Returns:
        0 where every picture is there, 4 where the run failed, 130 where it was interrupted.
    """
    return perform(plan_path, root, overwrite=overwrite, progress=progress, traceback=traceback).end()


def perform(plan_path: Path, root: Path, *, overwrite: bool, progress: str, traceback: bool) -> Outcome:
    """As `run_plan`; what came of it."""
    started = time.monotonic()

    def failed(error: RankError, *, name_rank: bool) -> Outcome:
        _say(error, traceback, name_rank=name_rank)
        return Outcome(FAILED, time.monotonic() - started, fault=error)

    try:
        program = worker.read_plan(plan_path)[0]["program"]
        found = surrounding_job()
        if found is not None:
            return _join(found, program, plan_path, root, overwrite, progress, traceback, started)
        if program["nodes"] > 1:
            raise RunError(
                f"the plan is made for {program['nodes']} nodes: start "
                f"`{plan_path.parent / 'launch' / 'torchrun.sh'}` on each of them, or run it with srun"
            )
        made = None if overwrite else _nothing_to_make(program, root, progress)
        if made is not None:
            return Outcome(0, time.monotonic() - started, made)
        outputs.prepare(Path(program["output"]["dir"]))  # before the ranks have loaded their libraries in vain
    except (RunError, OSError, ValueError, KeyError) as error:
        return failed(record(None, 0, error), name_rank=False)
    if progress != "none":  # loading the libraries and the weights is silent for a while
        print(f"dcompile: {_opening(program)}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="dcompile-") as folder:
        command = _worker_arguments(plan_path, root, overwrite, progress, Path(folder))
        try:
            failure = start_ranks(command, program["ranks"], Path(folder))
        except KeyboardInterrupt:
            _remove_drafts(program)
            print("dcompile: interrupted; run again to go on where it stopped", file=sys.stderr)
            return Outcome(INTERRUPTED, time.monotonic() - started)
        if failure is None:
            return Outcome(0, time.monotonic() - started, left_in(Path(folder)))
        _remove_drafts(program)
        return failed(first_error(Path(folder)) or failure, name_rank=program["ranks"] > 1)


def _nothing_to_make(program: dict[str, Any], root: Path, progress: str) -> Made | None:
    """What is there, where every picture is complete: then no rank is started and no library loaded. None otherwise."""
    folder = Path(program["output"]["dir"])
    todo = todo_of(program, root)
    if not todo.is_done(folder):
        return None
    say_complete(program, progress)
    return finish(program, todo, 0)


def _opening(program: dict[str, Any]) -> str:
    """What is going to be made, where it will lie, and by how many processes."""
    count, ranks = len(program["run"]["rows"]), program["ranks"]
    pictures = f"{count} picture{'s' if count != 1 else ''}"
    return f"{pictures} into {program['output']['dir']}/, on {ranks} rank{'s' if ranks != 1 else ''}"


def _join(
    found: tuple[str, int, int],
    program: dict[str, Any],
    plan_path: Path,
    root: Path,
    overwrite: bool,
    progress: str,
    traceback: bool,
    started: float,
) -> Outcome:
    launcher, rank, world = found
    if rank == 0:
        print(f"dcompile: joining a job of {launcher} with {world} rank(s)", file=sys.stderr, flush=True)
    try:
        if world != program["ranks"]:
            fault = f"{launcher} started {world} rank(s), but the plan is made for {program['ranks']}: start that many"
            raise RunError(fault) if rank == 0 else EchoError(fault)
        made = worker.run(plan_path, root, overwrite=overwrite, progress=progress)
    except KeyboardInterrupt:
        return Outcome(INTERRUPTED, time.monotonic() - started, rank=rank, world=world)
    except Exception as error:
        left = record(None, rank, error)
        if not left.is_echo:  # otherwise another rank says what happened
            _say(left, traceback, name_rank=world > 1)
        told = None if left.is_echo else left
        return Outcome(FAILED, time.monotonic() - started, fault=told, rank=rank, world=world)
    return Outcome(0, time.monotonic() - started, made, rank=rank, world=world)


def _worker_arguments(plan_path: Path, root: Path, overwrite: bool, progress: str, errors: Path) -> list[str]:
    arguments = ["-m", "dcompile.runtime.worker", "--plan", str(plan_path.resolve()), "--root", str(root.resolve())]
    arguments += ["--progress", progress, "--errors", str(errors), "--launcher", str(os.getpid())]
    return [*arguments, "--overwrite"] if overwrite else arguments


def start_ranks(arguments: list[str], count: int, folder: Path) -> RankError | None:
    """Runs the ranks to their end; what the machine says about a rank that left no error of its own."""
    if count > 1:
        return _start_with_torchrun(arguments, count, folder)
    child = subprocess.Popen([sys.executable, *arguments])
    try:
        code = child.wait()
    except BaseException:
        child.kill()
        child.wait()
        raise
    return None if code == 0 else _death(0, code, "")


def _start_with_torchrun(arguments: list[str], count: int, folder: Path) -> RankError | None:
    import logging

    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException, Std
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    # Each of torchrun's modules has a logger with a level of its own; what they say is said here in one sentence.
    for name in [name for name in logging.root.manager.loggerDict if name.startswith("torch.distributed.elastic")]:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.pop("PYTHONOPTIMIZE", None)  # diffusers refuses by assertions what the ranks would otherwise hang on
    quiet = dict.fromkeys(range(1, count), Std.ALL)
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=count,
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        local_addr="localhost",
        max_restarts=0,
        monitor_interval=0.1,
        start_method="spawn",
        logs_specs=DefaultLogsSpecs(log_dir=str(folder / "logs"), redirects=quiet),
    )
    # The agent takes these signals for the time of the run and does not give them back.
    signals = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
    handlers = {number: signal.getsignal(number) for number in signals}
    try:
        elastic_launch(config, sys.executable)(*arguments)
    except ChildFailedError as error:
        failures = sorted(error.failures.values(), key=lambda one: (one.exitcode == -signal.SIGTERM, one.timestamp))
        first = min(failures, key=lambda one: (one.exitcode >= 0, one.exitcode == -signal.SIGTERM))
        left = first_error(folder)
        death = _death(first.local_rank, first.exitcode, _last_words(folder, first.local_rank))
        if left is not None and left.is_echo and first.exitcode < 0:
            record_over(folder, death)
        return death
    except SignalException as error:
        raise KeyboardInterrupt from error
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return None


def record_over(folder: Path, death: RankError) -> None:
    """Drops the echoes of a rank that was killed, so that its own death is what is told."""
    for file in folder.glob("rank*.error.json"):
        if not file.name.startswith(f"rank{death.rank}."):
            file.unlink()


def _death(rank: int, code: int, last_words: str) -> RankError:
    if code < 0:
        hint = ", which is what a machine without free memory does" if -code == signal.SIGKILL else ""
        sentence = f"the process was killed by {signal.Signals(-code).name}{hint}"
    else:
        sentence = f"the process ended with code {code}" + (f": {last_words}" if last_words else "")
    return RankError(rank, 0.0, sentence, "", False)


def _last_words(folder: Path, rank: int) -> str:
    """The last line that a rank wrote to stderr."""
    for log in folder.glob(f"logs/**/{rank}/stderr.log"):
        lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
        if lines:
            return lines[-1].strip()
    return ""


def _remove_drafts(program: dict[str, Any]) -> None:
    """Removes files that a killed rank was in the middle of writing."""
    for draft in Path(program["output"]["dir"]).rglob(".*.part"):
        draft.unlink(missing_ok=True)


def _say(error: RankError, traceback: bool, *, name_rank: bool) -> None:
    who = f"rank {error.rank}: " if name_rank else ""
    print(f"dcompile: {who}{error.sentence}", file=sys.stderr)
    if traceback and error.traceback:
        print(error.traceback, file=sys.stderr)
