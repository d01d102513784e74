"""Names of output files: one template language for the checker and for the runtime."""

from __future__ import annotations

import re
import string
import unicodedata
from pathlib import PurePosixPath

FIELDS = ("index", "seed", "prompt_slug")
_SPEC = re.compile(r"0?\d?\d?d?\Z")
"""A width and nothing else: a recipe is untrusted, and `{index:999999999d}` would fill the memory."""


def slug(prompt: str) -> str:
    """A prompt as a piece of a file name: `a-red-fox`."""
    plain = unicodedata.normalize("NFKD", prompt).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")[:60].rstrip("-") or "untitled"


def file_name(template: str, file_format: str, *, index: int, seed: int, prompt: str) -> str:
    """The file of one row, relative to the output folder.

    Raises:
        ValueError: with a sentence for the user, where the template is broken or leads out of the folder.
    """
    for _, field, spec, conversion in _parts(template):
        if field is None:
            continue
        if field not in FIELDS or conversion:
            raise ValueError(
                f"`{template}` has `{{{field}}}`, which is none of {{index}}, {{seed}} and {{prompt_slug}}"
            )
        if spec and (field == "prompt_slug" or not _SPEC.match(spec)):
            raise ValueError(f"`{template}` formats `{field}` by `{spec}`: write a width, such as {{index:05d}}")
    path = PurePosixPath(f"{template.format(index=index, seed=seed, prompt_slug=slug(prompt))}.{file_format}")
    if path.is_absolute() or ".." in path.parts or path.name.startswith(".") or "\\" in str(path) or "\0" in str(path):
        raise ValueError(f"`{template}` leads out of the output folder")
    return path.as_posix()


def _parts(template: str) -> list[tuple[str, str | None, str | None, str | None]]:
    try:
        return list(string.Formatter().parse(template))
    except ValueError as error:
        raise ValueError(f"`{template}` is not a template: {error}") from error
