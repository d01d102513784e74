"""Names of output files: one template language for the checker and for the runtime."""

from __future__ import annotations

import re
import string
import unicodedata
from functools import lru_cache

FIELDS = ("index", "seed", "prompt_slug", "id")
FIELDS_TEXT = "{index:05d}, {seed}, {prompt_slug} and {id}"
_SPEC = re.compile(r"0?\d?\d?d?\Z")
"""A width and nothing else: a recipe is untrusted, and `{index:999999999d}` would fill the memory."""
_MAX_BYTES = 255
"""The longest name of a file or folder that Linux, macOS and Windows keep."""


def slug(prompt: str) -> str:
    """A prompt as a piece of a file name: `a-red-fox`."""
    plain = unicodedata.normalize("NFKD", prompt[:2000]).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")[:60].rstrip("-") or "untitled"


def file_name(template: str, file_format: str, *, index: int, seed: int, prompt: str, row_id: str | None = None) -> str:
    """The file of one row, relative to the output folder.

    Raises:
        ValueError: with a sentence for the user, where the template is broken or leads out of the folder.
    """
    _check(template)
    if row_id is None and "{id}" in template:
        raise ValueError(f"`{template}` has `{{id}}`, and rows have none without `run.id_column`")
    words = slug(prompt) if "prompt_slug" in template else ""
    name = f"{template.format(index=index, seed=seed, prompt_slug=words, id=row_id)}.{file_format}"
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or parts[-1].startswith(".") or "\\" in name or "\0" in name:
        raise ValueError(f"`{template}` leads out of the output folder")
    if any(len(part.encode("utf-8", "replace")) > _MAX_BYTES for part in parts):
        raise ValueError(f"`{template}` gives a name of more than {_MAX_BYTES} bytes")
    return "/".join(parts)


def is_plain_name(name: str) -> bool:
    """Whether a name is that of one folder, here and on other systems, and not of its parent or of a hidden one."""
    is_short = len(name.encode("utf-8", "replace")) <= _MAX_BYTES
    return is_short and name.isprintable() and name[:1] not in ("", ".", "~") and not set(name) & set('/\\:*?"<>|')


@lru_cache(maxsize=16)
def _check(template: str) -> None:
    """Refuses a template that has other fields, or formats them by more than a width."""
    if len(template) > 4 * _MAX_BYTES:
        raise ValueError(f"`{template[:60]}...` is longer than a file name may be")
    for _, field, spec, conversion in _parts(template):
        if field is None:
            continue
        if field not in FIELDS or conversion:
            raise ValueError(f"`{template}` has `{{{field}}}`, which is none of {FIELDS_TEXT}")
        if spec and (field in ("prompt_slug", "id") or not _SPEC.match(spec)):
            raise ValueError(f"`{template}` formats `{field}` by `{spec}`: write a width, such as {{index:05d}}")


def _parts(template: str) -> list[tuple[str, str | None, str | None, str | None]]:
    try:
        return list(string.Formatter().parse(template))
    except ValueError as error:
        raise ValueError(f"`{template}` is not a template: {error}") from error
