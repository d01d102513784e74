"""What a launcher's variables say about this process: its rank, the job's size, and where the ranks meet."""

from __future__ import annotations

import os

from dcompile.runtime.errors import RunError


def number_of(variable: str, otherwise: int) -> int:
    """The whole number from 0 in a variable of the environment, or another where it is not set.

    Raises:
        RunError: where the variable holds something else.
    """
    text = os.environ.get(variable)
    if text is None:
        return otherwise
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise RunError(f"the variable `{variable}` is `{text[:40]}`, and has to be a whole number from 0")
    return int(text)


def surrounding_job() -> tuple[str, int, int] | None:
    """The launcher, rank and world of the job that this process is in already; None where it is in none.

    Raises:
        RunError: where a variable of the launcher is not what it has to be.
    """
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        launcher, rank, world = "torchrun", "RANK", "WORLD_SIZE"
    elif "SLURM_PROCID" in os.environ and number_of("SLURM_NTASKS", 1) > 1:
        launcher, rank, world = "srun", "SLURM_PROCID", "SLURM_NTASKS"
    else:
        return None
    found = number_of(rank, 0), number_of(world, 1)
    if found[0] >= found[1]:
        raise RunError(f"the variable `{rank}` is `{found[0]}`, and `{world}` is `{found[1]}`: ranks count from 0")
    return launcher, *found


def adopt_slurm() -> None:
    """Gives torch.distributed's variables the values that `srun` set, where torchrun did not set them.

    Raises:
        RunError: as `surrounding_job`.
    """
    job = None if "RANK" in os.environ else surrounding_job()
    if job is None:
        return
    os.environ["RANK"], os.environ["WORLD_SIZE"] = str(job[1]), str(job[2])
    os.environ["LOCAL_RANK"] = str(number_of("SLURM_LOCALID", 0))
    os.environ.setdefault("MASTER_ADDR", os.environ.get("SLURM_LAUNCH_NODE_IPADDR", "127.0.0.1"))
    os.environ.setdefault("MASTER_PORT", str(20000 + number_of("SLURM_JOB_ID", 0) % 40000))


def check_meeting_place() -> None:
    """Looks whether the variables are there by which the ranks find each other.

    Raises:
        RunError: where one is missing or wrong.
    """
    for variable in ("MASTER_ADDR", "MASTER_PORT"):
        if not os.environ.get(variable):
            raise RunError(f"the variable `{variable}` is not set: it says where the ranks of the job meet")
    port = number_of("MASTER_PORT", 0)
    if not 0 < port < 2**16:
        raise RunError(f"the variable `MASTER_PORT` is `{port}`, and ports are from 1 to 65535")
