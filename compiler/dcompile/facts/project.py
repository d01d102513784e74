"""Where a project keeps facts files beside its recipes: `.dcompile/models/*.json`. ADR 0009 says why and how far up."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(".dcompile") / "models"
ID = re.compile("[A-Za-z0-9_.-]{1,100}(/[A-Za-z0-9_.-]{1,100})?")


def folders_from(start: Path) -> tuple[Path, ...]:
    """The folders of facts files that hold for a recipe: from its own folder up to the root of its git repository.

    Where there is no repository only the recipe's own folder is looked at.
    """
    found = []
    for folder in (start, *start.parents):
        found.append(folder / FOLDER)
        if (folder / ".git").exists():
            return tuple(place for place in found if place.is_dir())
    return (start / FOLDER,) if (start / FOLDER).is_dir() else ()


def file_name(model_id: str) -> str:
    """The file of a model's facts."""
    return f"{model_id.replace('/', '--')}.json"


def find(model_id: str, start: Path) -> Path | None:
    """The facts file of an id, the nearest first; None where there is none."""
    if not ID.fullmatch(model_id):
        return None
    name = file_name(model_id)
    return next((folder / name for folder in folders_from(start) if (folder / name).is_file()), None)


def known_here(start: Path) -> tuple[str, ...]:
    """The ids that facts files beside a recipe give, by their names."""
    names = {file.stem for folder in folders_from(start) for file in folder.glob("*.json")}
    return tuple(sorted(name.replace("--", "/", 1) for name in names))
