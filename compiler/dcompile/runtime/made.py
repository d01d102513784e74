"""What a run has made, for the person and for the program that asked for it."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dcompile.runtime import outputs
from dcompile.runtime.todo import Todo

_FILE = "made.json"


@dataclass(frozen=True)
class Made:
    """The pictures of a run.

    Attributes:
        made: how many were made by this run.
        skipped: how many were complete already.
        blackened: the files that the model's safety checker made black, in this run or before.
    """

    made: int
    skipped: int
    blackened: tuple[str, ...] = ()

    def leave_in(self, folder: Path) -> None:
        """Writes it where the launcher reads it."""
        (folder / _FILE).write_text(json.dumps(asdict(self)), encoding="utf-8")


def left_in(folder: Path) -> Made | None:
    """What the ranks left for their launcher."""
    file = folder / _FILE
    if not file.is_file():
        return None
    found = json.loads(file.read_text(encoding="utf-8"))
    return Made(found["made"], found["skipped"], tuple(found["blackened"]))


def say_complete(program: dict[str, Any], progress: str) -> None:
    """Says that a run has nothing to make."""
    count = len(program["run"]["rows"])
    every = f"all {count} pictures are" if count > 1 else "the picture is"
    if progress != "none":
        text = f"{every} complete already in {program['output']['dir']}/; --overwrite makes them again"
        print(f"dcompile: {text}", file=sys.stderr, flush=True)


def finish(program: dict[str, Any], todo: Todo, made: int) -> Made:
    """Writes the manifest of a run whose files are all complete, and says what somebody has to know about them.

    Args:
        made: how many of them this run has made.
    """
    entries = outputs.write_manifest(Path(program["output"]["dir"]), todo.names)
    if said := outputs.say_blackened(entries):
        print(f"dcompile: {said}", file=sys.stderr, flush=True)
    black = tuple(entry["file"] for entry in entries if entry.get(outputs.BLACKENED))
    return Made(made, len(todo.names) - made, black)
