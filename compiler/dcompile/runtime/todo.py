"""What a run still has to make. Decided from files alone, before anything is loaded: no torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dcompile.runtime import outputs
from dcompile.runtime.errors import RunError


@dataclass(frozen=True)
class Todo:
    """The rows of a job and what is known of their files.

    Attributes:
        names: the file of every row, by its index.
        digests: what each row's picture is made from.
        content: what all of them are made from (the model, adapters, input pictures): the same on every rank.
    """

    names: dict[int, str]
    digests: dict[int, str]
    content: str

    def pending(self, folder: Path, *, overwrite: bool) -> frozenset[int]:
        """The rows whose files are not complete; all of them where they are to be made again."""
        if overwrite:
            return frozenset(self.names)
        known = outputs.known_files(folder)
        complete = {
            index
            for index, name in self.names.items()
            if outputs.is_made(folder, name, self.digests[index], known) and outputs.is_whole(folder, name, known)
        }
        return frozenset(self.names.keys() - complete)

    def is_done(self, folder: Path) -> bool:
        """Whether every file is complete. Where one is missing, none of the others is read."""
        known = outputs.known_files(folder)
        return all(
            outputs.is_made(folder, name, self.digests[index], known) for index, name in self.names.items()
        ) and all(outputs.is_whole(folder, name, known) for name in self.names.values())


def todo_of(program: dict[str, Any], root: Path) -> Todo:
    """The rows of a program.

    Args:
        root: the recipe's folder, where the paths of models and pictures start.

    Raises:
        RunError: where two rows have one file, or an input picture cannot be read.
    """
    rows = program["run"]["rows"]
    names = {row["index"]: outputs.file_name(program["output"], row) for row in rows}
    if len(set(names.values())) < len(names):
        raise RunError(f"output.name `{program['output']['name']}` gives two rows the same file")
    content = outputs.model_content(program, root)
    seen = outputs.picture_digests(rows, root)
    digests = {row["index"]: outputs.content_digest(content, program["run"]["call"], row, seen) for row in rows}
    return Todo(names, digests, outputs.digest([content, seen]))
