"""Input pictures, read on every rank alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from PIL import Image, ImageOps

from dcompile.runtime.errors import RunError


def of_call(batch: list[dict[str, Any]], run: dict[str, Any], root: Path) -> list[Any]:
    """The pictures of a call for several rows, all of which have the same: as for one, or one for `each` of them.

    Args:
        run: `run` of the program.
    """
    found = load_pictures(batch[0], root)
    return found * len(batch) if run.get("images") == "each" else found


def load_pictures(row: dict[str, Any], root: Path) -> list[Any]:
    """The pictures of a row as the pipelines' examples load them: turned as the camera says, in RGB.

    Raises:
        RunError: where a file is damaged, or has another size than the plan was made for.
    """
    loaded = []
    for picture in row.get("images", ()):
        path = root / picture["path"]
        try:
            with Image.open(path) as file:
                made = ImageOps.exif_transpose(file).convert("RGB")
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            raise RunError(f"the picture `{path}` cannot be read: {error}") from error
        if made.size != (picture["width"], picture["height"]):
            sizes = (
                f"{made.width}x{made.height} pixels, and the plan was made for {picture['width']}x{picture['height']}"
            )
            raise RunError(f"the picture `{path}` has {sizes}: compile the recipe again")
        loaded.append(made)
    return loaded
