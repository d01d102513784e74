"""Stage 7: a plan and its program to the files of `build/<name>/`."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from dcompile.emit.plan_json import canonical_json

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


def validate(document: dict[str, Any]) -> None:
    """Check a plan against its schema, before it is written and before any rank starts.

    Raises:
        jsonschema.ValidationError: our own bug, or a plan that somebody edited.
    """
    import jsonschema

    from dcompile.emit.schema import plan_schema

    jsonschema.Draft202012Validator(plan_schema()).validate(json.loads(canonical_json(document)))


def files_of(document: dict[str, Any]) -> dict[str, str]:
    """The bundle: path to content, with nothing of this machine and no date in it."""
    mesh = " x ".join(f"{axis} {degree}" for axis, degree in document["mesh"].items()) or "one process"
    return {
        "plan.json": canonical_json(document),
        "run.py": RUN_PY.format(summary=f"{document['strategy']}, {mesh}"),
        "launch/torchrun.sh": TORCHRUN_SH.format(ranks=document["program"]["ranks"]),
    }


def write_bundle(document: dict[str, Any], folder: Path) -> Path:
    """Write the bundle's files, each one whole or not at all.

    Returns:
        The path of `plan.json`.
    """
    validate(document)
    for name, content in files_of(document).items():
        write_whole(folder / name, content)
    return folder / "plan.json"


def write_whole(path: Path, content: str) -> None:
    """Write a text file under another name and rename it, so that a reader never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(content)
        os.chmod(temporary, 0o755 if path.suffix == ".sh" else 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
