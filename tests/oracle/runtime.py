"""Really runs a compiled plan with `dcompile.runtime` on forked gloo ranks, and says what every rank made."""

from __future__ import annotations

import os
import tempfile
from contextlib import nullcontext
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from . import processes

LIMIT_SECONDS = float(os.environ.get("DCOMPILE_ORACLE_SECONDS", "60"))
"""More on a machine that is busy with other things."""
Made = dict[int, tuple[np.ndarray, ...]]
"""Row index to its last latents, its output (pictures or frames between 0 and 1), and its sound where it has one."""


@dataclass(frozen=True)
class Result:
    """What the ranks of a plan made, or the first thing that went wrong."""

    ranks: tuple[Made, ...] = ()
    error: str | None = None
    traceback: str = ""


def run_plan(plan: dict[str, Any], root: Path, limit_seconds: float = LIMIT_SECONDS) -> Result:
    """Loads and makes every row of the plan on as many forked ranks as it wants.

    Every rank of a replica has to come to the same pictures, not only the one that writes.
    """
    count = plan["program"]["ranks"]
    with tempfile.TemporaryDirectory() as folder:
        answers = processes.run(count, lambda rank: _rank(plan, root, rank, Path(folder)), limit_seconds)
    failed = [answer for answer in answers if answer.error is not None]
    if failed:
        first = min(failed, key=lambda answer: answer.is_echo)
        return Result(error=first.error, traceback=first.traceback)
    return Result(tuple(answer.value for answer in answers))


def _rank(plan: dict[str, Any], root: Path, rank: int, folder: Path) -> Made:
    from accelerate.state import AcceleratorState
    from dcompile.runtime import generate, load, logical_devices, pictures, ranks

    # What was forked may have been a job of its own; a rank that is started is not.
    AcceleratorState._reset_state(reset_partial_state=True)
    program = plan["program"]
    world = program["ranks"]
    os.environ.update({name: str(value) for name, value in program["env"].items()})
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), GLOO_SOCKET_IFNAME="lo")
    # The group meets in a file, so no port is needed; Accelerate only looks whether the address is there.
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29500")
    if world > 1:
        dist.init_process_group("gloo", store=dist.FileStore(str(folder / "store"), world), rank=rank, world_size=world)
    place = ranks.join(program)
    made: Made = {}
    with logical_devices.LogicalDevices() if place.has_logical_devices else nullcontext():
        pipeline = load.load_pipeline(plan, root, place)
        latents, sound = capture_latents(pipeline), capture_sound(pipeline)
        call = {**program["run"]["call"], "output_type": "np"}
        for batch in generate.batches(generate.own_rows(program, place), program["run"]["batch"]):
            images = pictures.of_call(batch, program["run"], root)
            outputs = generate.make(pipeline, batch, call, program["output"]["format"], images=images)
            for position, row in enumerate(batch):
                heard = [sound[-1][position]] if sound else []
                made[row["index"]] = (latents[-1][position], np.asarray(outputs[position]), *heard)
    place.gather(None)
    return made


def capture_sound(pipeline: Any) -> list[np.ndarray]:
    """A list to which every call of the vocoder appends the sound that it made; empty where there is none."""
    captured: list[np.ndarray] = []

    def listen(module: Any, given: Any, made: torch.Tensor) -> None:
        captured.append(made.detach().cpu().float().numpy())

    if hasattr(pipeline, "vocoder"):
        pipeline.vocoder.register_forward_hook(listen)
    return captured


def capture_latents(pipeline: Any) -> list[np.ndarray]:
    """A list to which every step of the scheduler appends the latents that it made.

    Copies of the scheduler append too: LTX-2 steps the sound by one, after the video.
    """
    captured: list[np.ndarray] = []
    plain = type(pipeline.scheduler)

    def step(scheduler: Any, *args: Any, **kwargs: Any) -> Any:
        result = plain.step(scheduler, *args, **kwargs)
        latents: torch.Tensor = result[0] if isinstance(result, tuple) else result.prev_sample
        captured.append(latents.detach().cpu().float().numpy())
        return result

    pipeline.scheduler.__class__ = type(plain.__name__, (plain,), {"step": wraps(plain.step)(step)})
    return captured
