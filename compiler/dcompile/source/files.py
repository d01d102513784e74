"""Files that a recipe names: found beside it or under a root, read with a limit."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path as FilePath
from pathlib import PureWindowsPath

from dcompile.core.diagnostics import Diagnostic, Path, Span
from dcompile.source.document import Document
from dcompile.source.faults import fault
from dcompile.source.parse import parse
from dcompile.source.scan import MAX_BYTES

_SUFFIXES = (".yaml", ".yml")


def read_text(path: FilePath) -> bytes:
    """The bytes of a file, at most one more than a recipe may have.

    Raises:
        OSError: where it cannot be read.
    """
    with path.open("rb") as stream:
        return stream.read(MAX_BYTES + 1)


def absolute(name: str) -> bool:
    """Whether a name is absolute on any system."""
    return name.startswith(("/", "~", "\\")) or bool(PureWindowsPath(name).drive)


def find(name: str, beside: str, roots: Sequence[FilePath]) -> FilePath | None:
    """The regular file of that name, beside a file or under a root."""
    for folder in (FilePath(beside).parent, *roots):
        candidate = FilePath(os.path.normpath(folder / name))
        try:
            if stat.S_ISREG(candidate.stat().st_mode):
                return candidate
        except (OSError, ValueError):
            continue
    return None


def load(
    name: str, what: str, code: str, at: tuple[str, Span], path: Path, roots: Sequence[FilePath], beside: str
) -> tuple[Document | None, list[Diagnostic]]:
    """Another file that a recipe names.

    Args:
        name: the name as it is written.
        what: what the file is, for messages.
        code: the fault where it is not there or cannot be read.
        at: where the name is written.
        path: the key under which it is written.
        roots: folders in which to look after the file's own.
        beside: the file that a relative name goes by.
    """
    file, span = at
    if absolute(name):
        message = f"`{name}` is an absolute path; {what} goes by a relative one"
        hint = "write it relative to this file, or under a folder given with --root"
        return None, [fault("DC122", message, hint, span, file, path)]
    if not name.endswith(_SUFFIXES):
        message = f"`{name}` is no name of a YAML file"
        return None, [fault("DC122", message, f"{what} is a .yaml or .yml file", span, file, path)]
    found = find(name, beside, roots)
    if found is None:
        looked = ", ".join(f"`{folder}`" for folder in (FilePath(beside).parent, *roots))
        return None, [fault(code, f"there is no file `{name}` ({what}) in {looked}", "", span, file, path)]
    if not os.path.realpath(found).endswith(_SUFFIXES):  # a checker of untrusted files shows no others' lines
        message = f"`{name}` is a link to what is no YAML file"
        return None, [fault("DC122", message, f"{what} is a .yaml or .yml file", span, file, path)]
    try:
        data = read_text(found)
    except OSError as error:
        return None, [fault(code, f"`{name}` cannot be read: {error.strerror}", "", span, file, path)]
    document, faults = parse(data, str(found))
    return document, list(faults)
