"""The rows of a job: prompts from the recipe or a file, each picture with its own seed."""

from __future__ import annotations

import csv
import json
import math
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dcompile.core.diagnostics import Diagnostic, Severity
from dcompile.core.meant import meant
from dcompile.recipe.model import Recipe

_SUFFIXES = (".txt", ".jsonl", ".csv")
_TEXTS = ("prompt", "negative_prompt", "image")
PICTURES = "image"
"""The column that names a row's own input picture, or in a .jsonl file its pictures."""
_WHOLE = {"height": 65_536, "width": 65_536, "frames": 100_000, "steps": 100_000}
_NUMBERS = ("guidance", "true_cfg")
_INTEGER = re.compile(r"-?[0-9]+")
_FLOAT = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?")
ROW_SIZES, ROW_LENGTHS = ("height", "width", "frames"), ("max_sequence_length",)
"""Columns of a prompt file that shapes follow from: keys of `run`, and of `run.args`."""
MAX_PICTURES = 50_000
"""A plan names every picture, so their number has a bound; the others keep a hostile file from costing more."""
MAX_FILE_BYTES = 32 * 2**20
MAX_LINE = 1 << 16
MAX_COLUMNS = 100
MAX_CELLS = 500_000
MAX_SHAPES = 500
MAX_DEPTH = 20
_SPLIT = "make several jobs of it"
_FORMS = {
    ".txt": "write one prompt on each line",
    ".jsonl": 'write one JSON object on each line, such as {"prompt": "a red fox", "seed": 7}',
    ".csv": "the first line names the columns, `prompt` among them; a cell with a comma or a quote stands in quotes",
}


class _PromptsError(Exception):
    """Prompts that cannot be used: a sentence, and what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


@dataclass(frozen=True, slots=True)
class Row:
    """One picture. `args` are the row's own call arguments, by the recipe's names (`steps`, `height` ...).

    `id` is what the job's `id_column` calls the row; `images` are its own input pictures, None where the recipe's are
    meant.
    """

    index: int
    prompt: str
    negative_prompt: str | None
    seed: int
    args: Mapping[str, Any]
    id: str | None = None
    images: tuple[str, ...] | None = None


def _fault(message: str, hint: str = "", path: tuple[str | int, ...] = ("run", "prompts")) -> Diagnostic:
    return Diagnostic("DC305", Severity.ERROR, message, hint, path)


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


def _lines(file: Path, newline: str) -> Iterator[str]:
    """The lines of a file, none of them held longer than it is needed, and none too long to be a row."""
    with file.open(encoding="utf-8-sig", newline=newline) as stream:
        number = 0
        while line := stream.readline(MAX_LINE + 1):
            number += 1
            if len(line) > MAX_LINE:
                raise ValueError(f"line {number} is longer than {MAX_LINE} characters")
            yield line


def _entries(file: Path) -> Iterator[dict[str, Any]]:
    """The rows of a prompt file with a text under `prompt`, one after the other.

    Raises:
        ValueError: with a sentence that names the line, where the file is not what its suffix says.
    """
    if file.suffix == ".csv":
        yield from _csv_entries(file)
        return
    for number, line in enumerate(_lines(file, "\n"), 1):
        if not (line := line.strip()):
            continue
        if file.suffix == ".txt":
            yield {"prompt": line}
            continue
        try:
            yield json.loads(line, parse_constant=_refuse, parse_float=_finite, object_pairs_hook=_object)
        except json.JSONDecodeError as error:
            raise ValueError(f"line {number} is not JSON ({error.msg} at column {error.colno})") from None
        except (ValueError, RecursionError) as error:
            why = "too deep" if isinstance(error, RecursionError) else str(error)[:80]
            raise ValueError(f"line {number} is not JSON ({why})") from None


def _csv_entries(file: Path) -> Iterator[dict[str, Any]]:
    reader = csv.reader(_lines(file, ""), strict=True)
    names: list[str] | None = None
    count = 0
    try:
        for cells in reader:
            if not cells:
                continue
            if names is None:
                names = cells
                _object([(name, None) for name in names])
                continue
            count += 1
            if len(cells) > len(names):
                raise ValueError(f"row {count} has more cells than the first line")
            kept = {name: cell for name, cell in zip(names, cells, strict=False) if cell}
            yield {name: cell if name in _TEXTS else _number(cell) for name, cell in kept.items()}
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num} is not CSV ({error})") from None


def _row_fault(number: int, entry: Any) -> str:
    """What is wrong with a row, or nothing."""
    if not isinstance(entry, dict) or not isinstance(entry.get("prompt"), str):
        keys = [key for key in entry if key != "prompt"] if isinstance(entry, dict) else []
        slip = next((key for key in keys if meant(key, ("prompt",))), None)
        return f"row {number} has no text under `prompt`" + (f", but something under `{slip}`" if slip else "")
    if not isinstance(entry.get("negative_prompt", ""), str):
        return f"`negative_prompt` of row {number} is no text"
    if len(entry) > MAX_COLUMNS:
        return f"row {number} has more than {MAX_COLUMNS} columns"
    if not _names(entry.get(PICTURES, "-")):
        return f"`{PICTURES}` of row {number} names no picture"
    for key, value in entry.items():
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if key == "seed" and not (is_whole and 0 <= value < 2**63):
            return f"`seed` of row {number} is no whole number from 0 to 2**63 - 1"
        if key in _WHOLE and not (is_whole and 1 <= value <= _WHOLE[key]):
            return f"`{key}` of row {number} is no whole number from 1 to {_WHOLE[key]}"
        if key in _NUMBERS and not (is_whole or isinstance(value, float)):
            return f"`{key}` of row {number} is no number"
    return ""


def _names(value: Any) -> tuple[str, ...]:
    """The pictures that a cell names: one, or a list of them; none where it is neither."""
    names = value if isinstance(value, list) else [value]
    return tuple(names) if all(isinstance(name, str) and name.strip() for name in names) else ()


def _cells(value: Any, depth: int = 0) -> int:
    """How many values a row holds, those inside its lists and mappings included."""
    if depth > MAX_DEPTH:
        raise _PromptsError(f"a row is nested deeper than {MAX_DEPTH} levels", "write plain values")
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return len(inner) + sum(_cells(item, depth + 1) for item in inner if isinstance(item, (dict, list)))


def _read(entries: Iterable[Any], images_per_prompt: int) -> list[dict[str, Any]]:
    """The rows without the columns that they do not have (an empty cell, a `null`).

    Raises:
        _PromptsError: for the first row that cannot be used, or where there are too many.
    """
    kept: list[dict[str, Any]] = []
    shapes: set[tuple[Any, ...]] = set()
    cells = 0
    for number, entry in enumerate(entries, 1):
        if number * images_per_prompt > MAX_PICTURES:
            raise _PromptsError(f"the job has more than {MAX_PICTURES} pictures", _SPLIT)
        if isinstance(entry, dict):
            entry = {key: value for key, value in entry.items() if value is not None}
        if fault := _row_fault(number, entry):
            raise _PromptsError(fault, "every row needs a prompt, and numbers where `run` has them")
        cells += _cells(entry)
        if cells > MAX_CELLS:
            raise _PromptsError(f"the rows have more than {MAX_CELLS} cells", _SPLIT)
        if len(entry) > 1:
            shapes.add(tuple(str(entry.get(key)) for key in (*ROW_SIZES, *ROW_LENGTHS)))
            if len(shapes) > MAX_SHAPES:
                raise _PromptsError(f"the rows have more than {MAX_SHAPES} different sizes", _SPLIT)
        kept.append(entry)
    return kept


def read_rows(recipe: Recipe, root: Path) -> tuple[tuple[Row, ...], tuple[Diagnostic, ...]]:
    """Every picture of the job in prompt order.

    Row i and repeat r use `seed + i * images_per_prompt + r`; a row's own `seed` column, or `run.seeds`, comes first
    (its repeats count up from it).

    Emits: DC305 for a prompt file that cannot be used, or seeds that do not match the prompts.
    """
    run = recipe.run
    if run.prompts is None:
        return (), (
            _fault("`run.prompts` is missing", "write a list of prompts, or a .txt, .jsonl or .csv file", ("run",)),
        )
    name = run.prompts if isinstance(run.prompts, str) else ""
    try:
        entries = _entries(_prompt_file(root, name)) if name else ({"prompt": prompt} for prompt in run.prompts)
        rows = _read(entries, run.images_per_prompt)
    except _PromptsError as error:
        return (), (_fault(f"{name}: {error.message}" if name else error.message, error.hint),)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        hint = "the path is relative to the recipe" if isinstance(error, OSError) else _FORMS[Path(name).suffix]
        hint = "save it as UTF-8" if isinstance(error, UnicodeError) else hint
        return (), (_fault(f"`{name}` cannot be read: {why}", hint),)
    if not rows:
        return (), (_fault("there are no prompts", "write at least one"),)
    if run.id_column is not None and (fault := _id_fault(run.id_column, name, rows)):
        return (), (_fault(fault, "name a column that every row of a .jsonl or .csv file has", ("run", "id_column")),)
    if run.seeds is not None and len(run.seeds) != len(rows):
        message = f"{len(run.seeds)} seeds for {len(rows)} prompts"
        return (), (_fault(message, "give one seed for each prompt", ("run", "seeds")),)
    return tuple(_expand(recipe, rows)), ()


def _id_fault(column: str, name: str, rows: list[dict[str, Any]]) -> str:
    """Why a column cannot name the rows, or nothing."""
    if column in ("prompt", "negative_prompt", "seed", PICTURES):
        return f"`id_column` is `{column}`, which is an argument of the row and no name"
    for number, row in enumerate(rows, 1):
        value = row.get(column)
        if not isinstance(value, (str, int)) or isinstance(value, bool) or not str(value).strip():
            return f"row {number} of {f'`{name}`' if name else 'the prompts'} has no name under `{column}`"
    return ""


def _prompt_file(root: Path, name: str) -> Path:
    file = root / name
    if file.suffix not in _SUFFIXES:
        hint = f'for a single prompt write `["{name[:40]}"]`; a file ends in .txt, .jsonl or .csv'
        raise _PromptsError("this is neither a list of prompts nor a prompt file", hint)
    state = file.stat()
    if not stat.S_ISREG(state.st_mode):
        raise _PromptsError("this is no file", "name a .txt, .jsonl or .csv file")
    if state.st_size > MAX_FILE_BYTES:
        raise _PromptsError(f"the file is larger than {MAX_FILE_BYTES >> 20} MiB", "make several jobs of it")
    return file


def _expand(recipe: Recipe, entries: list[dict[str, Any]]) -> list[Row]:
    run = recipe.run
    rows: list[Row] = []
    for i, entry in enumerate(entries):
        own = ("prompt", "negative_prompt", "seed", PICTURES, run.id_column)
        extra = {k: v for k, v in entry.items() if k not in own}
        row_id = None if run.id_column is None else str(entry[run.id_column])
        first = entry.get("seed", run.seeds[i] if run.seeds else None)
        for repeat in range(run.images_per_prompt):
            seed = (run.seed or 0) + i * run.images_per_prompt + repeat if first is None else int(first) + repeat
            rows.append(
                Row(
                    len(rows),
                    entry["prompt"],
                    entry.get("negative_prompt", run.negative_prompt),
                    seed,
                    extra,
                    row_id,
                    _names(entry[PICTURES]) if PICTURES in entry else None,
                )
            )
    return rows
