"""The rows of a job: prompts from the recipe or a file, each picture with its own seed."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dcompile.core.diagnostics import Diagnostic, Severity
from dcompile.recipe.model import Recipe

_SUFFIXES = (".txt", ".jsonl", ".csv")
_TEXTS = ("prompt", "negative_prompt")
_WHOLE = ("height", "width", "frames", "steps")
_NUMBERS = ("guidance", "true_cfg")
_INTEGER = re.compile(r"-?[0-9]+")
_FLOAT = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?")
MAX_PICTURES = 100_000
"""A plan names every picture, so their number has a bound."""
MAX_FILE_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Row:
    """One picture. `args` are the row's own call arguments, by the recipe's names (`steps`, `height` ...)."""

    index: int
    prompt: str
    negative_prompt: str | None
    seed: int
    args: dict[str, Any] = field(default_factory=dict)


def _fault(message: str, hint: str = "", path: tuple[str | int, ...] = ("run", "prompts")) -> Diagnostic:
    return Diagnostic("DC305", Severity.ERROR, message, hint, path)


def _number(text: str) -> Any:
    """A CSV cell as the number it is, else as text; numbers are written as in a recipe."""
    if len(text) <= 40 and _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if len(text) <= 40 and _FLOAT.fullmatch(text) else text


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number")


def _entries(file: Path) -> list[Any]:
    """The rows of a prompt file, not yet checked.

    Raises:
        ValueError: with a sentence that names the line, where the file is not what its suffix says.
    """
    text = file.read_text(encoding="utf-8-sig")
    if file.suffix == ".csv":
        return _csv_entries(text)
    lines = [(number, line.strip()) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if file.suffix == ".txt":
        return [{"prompt": line} for _, line in lines]
    entries = []
    for number, line in lines:
        try:
            entries.append(json.loads(line, parse_constant=_refuse))
        except json.JSONDecodeError as error:
            raise ValueError(f"line {number} is not JSON ({error.msg} at column {error.colno})") from None
        except (ValueError, RecursionError) as error:
            why = "too deep" if isinstance(error, RecursionError) else str(error)[:80]
            raise ValueError(f"line {number} is not JSON ({why})") from None
    return entries


def _csv_entries(text: str) -> list[Any]:
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    entries: list[Any] = []
    try:
        for row in reader:
            if None in row:
                raise ValueError(f"row {len(entries) + 1} has more cells than the first line")
            kept = {key: value for key, value in row.items() if value}
            entries.append({key: value if key in _TEXTS else _number(value) for key, value in kept.items()})
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num} is not CSV ({error})") from None
    return entries


def _row_fault(number: int, entry: Any) -> str:
    """What is wrong with a row, or nothing."""
    if not isinstance(entry, dict) or not isinstance(entry.get("prompt"), str):
        return f"row {number} has no text under `prompt`"
    if not isinstance(entry.get("negative_prompt", ""), str):
        return f"`negative_prompt` of row {number} is no text"
    for key, value in entry.items():
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if key == "seed" and not (is_whole and 0 <= value < 2**63):
            return f"`seed` of row {number} is no whole number from 0 to 2**63 - 1"
        if key in _WHOLE and not (is_whole and value >= 1):
            return f"`{key}` of row {number} is no whole number above 0"
        if key in _NUMBERS and not (is_whole or isinstance(value, float)):
            return f"`{key}` of row {number} is no number"
    return ""


def read_rows(recipe: Recipe, root: Path) -> tuple[tuple[Row, ...], tuple[Diagnostic, ...]]:
    """Every picture of the job in prompt order.

    Row i and repeat r use `seed + i * images_per_prompt + r`; a row's own `seed` column, or `run.seeds`, comes first
    (its repeats count up from it).

    Emits: DC305 for a prompt file that cannot be used, or seeds that do not match the prompts.
    """
    run = recipe.run
    entries: list[Any]
    if run.prompts is None:
        return (), (
            _fault("`run.prompts` is missing", "write a list of prompts, or a .txt, .jsonl or .csv file", ("run",)),
        )
    if isinstance(run.prompts, str):
        file = root / run.prompts
        if file.suffix not in _SUFFIXES:
            hint = f'for a single prompt write `["{run.prompts[:40]}"]`; a file ends in .txt, .jsonl or .csv'
            return (), (_fault(f"`{run.prompts[:60]}` is neither a list of prompts nor a prompt file", hint),)
        try:
            if file.stat().st_size > MAX_FILE_BYTES:
                return (), (_fault(f"{run.prompts} is larger than 64 MiB", "split it"),)
            entries = _entries(file)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            return (), (_fault(f"{run.prompts} cannot be read: {why}", "the path is relative to the recipe"),)
    else:
        entries = [{"prompt": prompt} for prompt in run.prompts]
    if not entries:
        return (), (_fault("there are no prompts", "write at least one"),)
    # An empty cell and a `null` are a column that the row does not have.
    entries = [
        {key: value for key, value in entry.items() if value is not None} if isinstance(entry, dict) else entry
        for entry in entries
    ]
    for number, entry in enumerate(entries, 1):
        fault = _row_fault(number, entry)
        if fault:
            where = f"{run.prompts}: " if isinstance(run.prompts, str) else ""
            return (), (_fault(f"{where}{fault}", "every row needs a prompt, and numbers where `run` has them"),)
    if len(entries) * run.images_per_prompt > MAX_PICTURES:
        message = f"{len(entries)} prompts with {run.images_per_prompt} pictures each are more than {MAX_PICTURES}"
        return (), (_fault(message, "make several jobs of it"),)
    if run.seeds is not None and len(run.seeds) != len(entries):
        message = f"{len(run.seeds)} seeds for {len(entries)} prompts"
        return (), (_fault(message, "give one seed for each prompt", ("run", "seeds")),)
    return tuple(_expand(recipe, entries)), ()


def _expand(recipe: Recipe, entries: list[dict[str, Any]]) -> list[Row]:
    run = recipe.run
    rows: list[Row] = []
    for i, entry in enumerate(entries):
        extra = {k: v for k, v in entry.items() if k not in ("prompt", "negative_prompt", "seed", run.id_column)}
        first = entry.get("seed", run.seeds[i] if run.seeds else None)
        for repeat in range(run.images_per_prompt):
            seed = (run.seed or 0) + i * run.images_per_prompt + repeat if first is None else int(first) + repeat
            rows.append(Row(len(rows), entry["prompt"], entry.get("negative_prompt", run.negative_prompt), seed, extra))
    return rows
