"""A variable of `launch.env` breaks the run, or comes too late to have an effect.

What it checks: the names (and, where it matters, the values) of `launch.env`.

Why it matters: ranks find each other and their devices by variables that the launcher sets for each of them; one value
for all makes them wait for each other. Others are read before the recipe's environment is in place. Without assertions
(`PYTHONOPTIMIZE`) diffusers no longer sees lengths that do not divide, and the ranks hang.

Example: `launch: {env: {MASTER_PORT: "29500"}}`

Use instead: leave it out: every run takes a free port

Source: torch 2.13.0, `distributed/elastic/agent/server/local_elastic_agent.py`; diffusers 0.42.1,
`models/attention_dispatch.py:267`, `hooks/context_parallel.py:274` (rows GEN-09, GEN-13, GEN-14, CPB-06).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic, Remove
from dcompile.rules.rule import Rule, Subject, error, warning

LEAVE_OUT = "leave it out"
LAUNCHER = (
    re.compile(r"(LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)|ROLE_NAME|MASTER_(ADDR|PORT)|(TORCHELASTIC|SLURM)_\w*"),
    "is set by the launcher for each rank",
    LEAVE_OUT,
)
TOO_LATE = (
    re.compile(r"PYTHON(PATH|HOME|HASHSEED|UNBUFFERED|STARTUP|SAFEPATH)|LD_LIBRARY_PATH|LD_PRELOAD"),
    "is read when a process starts, before the recipe's environment is in place",
    "set it in the shell that starts `dcompile`",
)
REFUSED = (
    LAUNCHER,
    TOO_LATE,
    (
        re.compile(r"PYTHONOPTIMIZE"),
        "takes out the assertions by which diffusers refuses lengths that do not divide",
        LEAVE_OUT,
    ),
    (
        re.compile(r"(CUDA|HIP|ROCR|GPU)_VISIBLE_DEVICES|CUDA_VISIBLE_DEVICES|ZE_AFFINITY_MASK|GPU_DEVICE_ORDINAL"),
        "hides devices from a plan that names them",
        "use `devices.ids`",
    ),
    (
        re.compile(r"DIFFUSERS_ATTN_BACKEND"),
        "is overruled by the backend that the plan sets",
        "use `components.<name>.attention`",
    ),
    (
        re.compile(r"ACCELERATE_\w+"),
        "is a setting of `accelerate launch`, and the plan says what it would",
        LEAVE_OUT,
    ),
)
"""Names, what is wrong with them, what to do instead."""

NO_WATCHDOG = ("NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_ASYNC_ERROR_HANDLING")


def check(subject: Subject) -> Iterator[Diagnostic]:
    for name, value in subject.recipe.launch.env.items():
        path = ("launch", "env", name)
        if not name or "=" in name or "\0" in name + value:
            yield error("DC418", f"`{name[:40]}` cannot be a variable of the environment", "use a plain name", path)
            continue
        for pattern, why, hint in REFUSED:
            if pattern.fullmatch(name):
                yield error("DC418", f"`{name}` {why}", hint, path, fix=Remove() if hint == LEAVE_OUT else None)
                break
        if name in NO_WATCHDOG and value == "0":
            message = f"`{name}: 0` turns off what ends ranks that wait for one that is gone"
            yield warning("DC418", message, LEAVE_OUT, path, fix=Remove())


RULE = Rule("DC418", check)
