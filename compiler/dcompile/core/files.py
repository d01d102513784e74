"""Files that a reader sees whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_whole(path: Path, content: str | bytes, mode: int = 0o644) -> None:
    """Write a file under another name beside it and rename it. Text is UTF-8 with LF; folders are made.

    Raises:
        OSError: where it cannot be written; what was there before is there still.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode("utf-8") if isinstance(content, str) else content)
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:  # an interruption too leaves no draft behind
        Path(temporary).unlink(missing_ok=True)
        raise
