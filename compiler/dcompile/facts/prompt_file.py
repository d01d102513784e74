"""A prompt file as entries, one for each row: .txt, .jsonl or .csv, read a line at a time."""

from __future__ import annotations

import csv
import json
import math
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dcompile.core.meant import meant

MAX_FILE_BYTES = 32 * 2**20
MAX_LINE = 1 << 16
PICTURES = "image"
"""The column that names a row's own input picture, or in a .jsonl file its pictures."""
TEXTS = ("prompt", "negative_prompt", PICTURES)
_SUFFIXES = (".txt", ".jsonl", ".csv")
_INTEGER = re.compile(r"-?[0-9]+")
_FLOAT = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_FORMS = {
    ".txt": "write one prompt on each line",
    ".jsonl": 'write one JSON object on each line, such as {"prompt": "a red fox", "seed": 7}',
    ".csv": "the first line names the columns, `prompt` among them; a cell with a comma or a quote stands in quotes",
}


class PromptsError(Exception):
    """Prompts that cannot be read, or not further than here: a sentence, and what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


@dataclass(frozen=True)
class Unread:
    """A row that cannot be read.

    Attributes:
        message: what is wrong, with `{rows}` for the rows that it is wrong with.
        detail: what is wrong with this one.
        line: its line, where that says more than the number of its row.
    """

    message: str
    detail: str
    hint: str
    line: int | None = None


def entries_of(root: Path, name: str) -> Iterator[dict[str, Any] | Unread]:
    """The rows of a prompt file as mappings with a text under `prompt`, or what is in the place of one.

    Args:
        root: the recipe's folder, where relative names start.

    Raises:
        PromptsError: where the file cannot be read, or cannot be read further.
    """
    try:
        file = _prompt_file(root, name)
        yield from _csv_entries(file) if file.suffix == ".csv" else _line_entries(file)
    except UnicodeError as error:
        raise PromptsError(f"`{name}` cannot be read: {error}", "save it as UTF-8") from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        hint = "the path is relative to the recipe" if isinstance(error, OSError) else _FORMS[Path(name).suffix]
        raise PromptsError(f"`{name}` cannot be read: {why}", hint) from None


def _prompt_file(root: Path, name: str) -> Path:
    file = root / name
    if file.suffix not in _SUFFIXES:
        hint = f'for a single prompt write `["{name[:40]}"]`; a file ends in .txt, .jsonl or .csv'
        raise PromptsError(f"{name}: this is neither a list of prompts nor a prompt file", hint)
    state = file.stat()
    if not stat.S_ISREG(state.st_mode):
        raise PromptsError(f"{name}: this is no file", "name a .txt, .jsonl or .csv file")
    if state.st_size > MAX_FILE_BYTES:
        raise PromptsError(f"{name}: the file is larger than {MAX_FILE_BYTES >> 20} MiB", "make several jobs of it")
    return file


def _lines(file: Path, newline: str) -> Iterator[str]:
    """The lines of a file, none of them held longer than it is needed, and none too long to be a row."""
    with file.open(encoding="utf-8-sig", newline=newline) as stream:
        number = 0
        while line := stream.readline(MAX_LINE + 1):
            number += 1
            if len(line) > MAX_LINE:
                raise ValueError(f"line {number} is longer than {MAX_LINE} characters")
            yield line


def _line_entries(file: Path) -> Iterator[dict[str, Any] | Unread]:
    for number, line in enumerate(_lines(file, "\n"), 1):
        if not (line := line.strip()):
            continue
        yield {"prompt": line} if file.suffix == ".txt" else _json_entry(line, number)


def _json_entry(line: str, number: int) -> Any:
    try:
        return json.loads(line, parse_constant=_refuse, parse_float=_finite, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        why = f"{error.msg} at column {error.colno}"
    except (ValueError, RecursionError) as error:
        why = "too deep" if isinstance(error, RecursionError) else str(error)[:80]
    return Unread("{rows} cannot be read as JSON", why, _FORMS[".jsonl"], number)


def _csv_entries(file: Path) -> Iterator[dict[str, Any] | Unread]:
    reader = csv.reader(_lines(file, ""), strict=True)
    names: list[str] | None = None
    try:
        for cells in reader:
            if not cells:
                continue
            if names is None:
                names = _named_columns(cells)
            elif len(cells) > len(names):
                detail = f"{len(cells)} cells for {len(names)} columns"
                yield Unread("{rows}: more cells than the first line has", detail, _FORMS[".csv"])
            else:
                yield _csv_entry(dict(zip(names, cells, strict=False)))
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num} is not CSV ({error})") from None


def _csv_entry(cells: dict[str, str]) -> dict[str, Any] | Unread:
    try:
        return {name: cell if name in TEXTS else _number(cell) for name, cell in cells.items() if cell}
    except ValueError as error:
        return Unread("{rows}: a number that is none", str(error), "write numbers as in a recipe")


def _named_columns(names: list[str]) -> list[str]:
    """The first line of a CSV file.

    Raises:
        ValueError: where a name is there twice, or none is `prompt`.
    """
    _object([(name, None) for name in names])
    if "prompt" not in names:
        slip = next((name for name in names if meant(name, ("prompt",))), None)
        raise ValueError("no column is called `prompt`" + (f", but one `{slip}`" if slip else ""))
    return names


def _number(text: str) -> Any:
    """A CSV cell as the number it is, else as text; numbers are written as in a recipe."""
    if len(text) <= 40 and _INTEGER.fullmatch(text):
        return int(text)
    return _finite(text) if len(text) <= 40 and _FLOAT.fullmatch(text) else text


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is too large for a number")
    return number


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"`{twice[:40]}` is given twice")
    return found
