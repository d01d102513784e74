"""Stage 7: a plan and its program to the files of `build/<name>/`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dcompile.core.files import write_whole
from dcompile.core.plan_schema import plan_fault
from dcompile.emit.drawn import Drawn
from dcompile.emit.plan_json import canonical_json
from dcompile.emit.report.page import report_html
from dcompile.emit.words import mesh_text

RUN_PY = '''"""Runs the plan beside this file: {summary}.

    python run.py --root FOLDER      FOLDER holds the recipe; relative model paths start there

Inside torchrun or srun it joins their job; otherwise it starts its own ranks.
"""

import argparse
import sys
from pathlib import Path

from dcompile.runtime.launch import run_plan

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path("."), help="where relative model paths start")
    parser.add_argument("--overwrite", action="store_true", help="make complete pictures again")
    arguments = parser.parse_args()
    plan = Path(__file__).resolve().parent / "plan.json"
    sys.exit(run_plan(plan, arguments.root, overwrite=arguments.overwrite))
'''

TORCHRUN_SH = """#!/bin/sh
# Starts the plan's {ranks} rank(s) with torchrun; call it from the folder where the pictures shall go.
exec torchrun --standalone --nproc-per-node {ranks} "$(dirname "$0")/../run.py" "$@"
"""

TORCHRUN_NODES_SH = """#!/bin/sh
# Starts one node's part of the plan's {ranks} ranks with torchrun. Call it on each of {nodes} nodes, from the folder
# where the pictures shall go, with MASTER_ADDR set to the first of them.
: "${{MASTER_ADDR:?set it to the first node}}"
exec torchrun --nnodes {nodes} --nproc-per-node {ranks_per_node} --rdzv-backend c10d \\
  --rdzv-id "${{MASTER_ID:-dcompile}}" --rdzv-endpoint "$MASTER_ADDR:${{MASTER_PORT:-29500}}" \\
  "$(dirname "$0")/../run.py" "$@"
"""


def files_of(document: dict[str, Any], drawn: Drawn) -> dict[str, str]:
    """The bundle: path to content, with nothing of this machine and no date in it."""
    plan = canonical_json(document)
    return {
        "plan.json": plan,
        "run.py": RUN_PY.format(summary=f"{document['strategy']}, {mesh_text(document['mesh'])}"),
        "launch/torchrun.sh": _torchrun(document["program"]),
        "report.html": report_html(json.loads(plan), drawn),
    }


def _torchrun(program: dict[str, Any]) -> str:
    text = TORCHRUN_NODES_SH if program["nodes"] > 1 else TORCHRUN_SH
    return text.format(ranks=program["ranks"], nodes=program["nodes"], ranks_per_node=program["ranks_per_node"])


def bundle_folder(document: dict[str, Any]) -> Path:
    """Where a plan's bundle lies, below the working directory."""
    return Path("build") / str(document["name"])


def stale_files(files: dict[str, str], folder: Path) -> tuple[list[str], list[str]]:
    """The files of a bundle that are missing in a folder, and those that are not what would be written.

    Raises:
        OSError: where a file is there and cannot be read.
    """
    missing, differ = [], []
    for name, content in files.items():
        try:
            if (folder / name).read_bytes() != content.encode("utf-8"):
                differ.append(name)
        except (FileNotFoundError, NotADirectoryError):
            missing.append(name)
    return missing, differ


def write_bundle(files: dict[str, str], folder: Path) -> Path:
    """Write the bundle's files, each one whole or not at all.

    Returns:
        The path of `plan.json`.
    """
    fault = plan_fault(json.loads(files["plan.json"]))
    if fault is not None:
        raise AssertionError(f"the plan is not by its schema: {fault}")
    for name, content in files.items():
        write_whole(folder / name, content, 0o755 if name.endswith(".sh") else 0o644)
    return folder / "plan.json"
