"""Every rank reads the model's files over the network.

What it checks: several ranks, and a `model.path` that names a network file system in one of its folders (`/nfs/qwen`).
What the ranks read together is counted; under `tensor` each reads its slices only.

Why it matters: a network disk gives all ranks together what one of them could have, file by file and through mapped
pages: the job says nothing for minutes before its first step.

Example: `model: {path: /nfs/qwen-image}` with `data: 8`: 8 times 53.74 GiB

Use instead: a copy on a disk of the node

Source: vllm-project/vllm-omni#1504, #4896, kohya-ss/musubi-tuner#655, sgl-project/sglang#19114: 15 minutes for what a
plain copy does in 3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.core.units import format_bytes
from dcompile.memory.host import read_bytes
from dcompile.rules.rule import Rule, Subject, advice

NETWORK = re.compile(
    r"(^|[/\\])(nfs|efs|fsx|lustre|gpfs|beegfs|wekafs|ceph|cephfs|smb|cifs)\d?([/\\]|$)", re.IGNORECASE
)
"""File systems of a network, as folders are called after them. What is mounted here is not asked: the verdict is the
same on every machine."""


def check(subject: Subject) -> Iterator[Diagnostic]:
    path, ranks = subject.recipe.model.path, subject.splits.ranks
    found = NETWORK.search(path or "")
    if path is None or found is None or ranks < 2:
        return
    each = read_bytes(subject.recipe, subject.facts, subject.splits)
    whole = format_bytes(ranks * each)
    message = f"{ranks} ranks read {format_bytes(each)} each from `{path}`: {whole} in all over the network"
    yield advice("DC606", message, "copy the model to a disk of the node first", ("model", "path"))


RULE = Rule("DC606", check)
