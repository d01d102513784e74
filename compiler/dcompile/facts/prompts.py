"""The rows of a job: prompts from the recipe or a file, each picture with its own seed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dcompile.core.diagnostics import Diagnostic, Severity, bounded
from dcompile.core.meant import meant
from dcompile.core.numbered import numbered
from dcompile.facts.prompt_file import PICTURES, PromptsError, Unread, entries_of
from dcompile.recipe.model import Recipe

_WHOLE = {"height": 65_536, "width": 65_536, "frames": 100_000, "steps": 100_000}
_NUMBERS = ("guidance", "true_cfg")
ROW_SIZES, ROW_LENGTHS = ("height", "width", "frames"), ("max_sequence_length",)
"""Columns of a prompt file that shapes follow from: keys of `run`, and of `run.args`."""
MAX_PICTURES = 50_000
"""A plan names every picture, so their number has a bound; the others keep a hostile file from costing more."""
MAX_COLUMNS = 100
MAX_CELLS = 500_000
MAX_SHAPES = 500
MAX_DEPTH = 20
MAX_WRONG_ROWS = 100
MAX_KINDS = 20
_SPLIT = "make several jobs of it"
_EVERY_ROW = "every row needs a prompt, and numbers where `run` has them"


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


def _row_faults(entry: Any) -> list[tuple[str, Any]]:
    """What is wrong with a row: sentences with `{rows}` in the place of its number, and the value that is wrong."""
    if not isinstance(entry, dict):
        return [("{rows}: no mapping with a text under `prompt`", entry)]
    if len(entry) > MAX_COLUMNS:
        return [(f"{{rows}}: more than {MAX_COLUMNS} columns", len(entry))]
    found: list[tuple[str, Any]] = []
    if not isinstance(entry.get("prompt"), str):
        slip = next((key for key in entry if key != "prompt" and meant(key, ("prompt",))), None)
        instead = f", but something under `{slip}`" if slip else ""
        found.append((f"{{rows}}: no text under `prompt`{instead}", entry.get("prompt")))
    if not isinstance(entry.get("negative_prompt", ""), str):
        found.append(("{rows}: `negative_prompt` is no text", entry["negative_prompt"]))
    if not _names(entry.get(PICTURES, "-")):
        found.append((f"{{rows}}: `{PICTURES}` names no picture", entry[PICTURES]))
    for key, value in entry.items():
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if key == "seed" and not (is_whole and 0 <= value < 2**63):
            found.append(("{rows}: `seed` is no whole number from 0 to 2**63 - 1", value))
        elif key in _WHOLE and not (is_whole and 1 <= value <= _WHOLE[key]):
            found.append((f"{{rows}}: `{key}` is no whole number from 1 to {_WHOLE[key]}", value))
        elif key in _NUMBERS and not (is_whole or isinstance(value, float)):
            found.append((f"{{rows}}: `{key}` is no number", value))
    return found


def _names(value: Any) -> tuple[str, ...]:
    """The pictures that a cell names: one, or a list of them; none where it is neither."""
    names = value if isinstance(value, list) else [value]
    return tuple(names) if all(isinstance(name, str) and name.strip() for name in names) else ()


def _cells(value: Any, depth: int = 0) -> int:
    """How many values a row holds, those inside its lists and mappings included; below 0 where it is too deep."""
    if depth > MAX_DEPTH:
        return -MAX_CELLS * MAX_COLUMNS
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return len(inner) + sum(_cells(item, depth + 1) for item in inner if isinstance(item, (dict, list)))


@dataclass
class _Rows:
    """What was read: the rows by their numbers from 1, and what is wrong, of which one cause is told once.

    `wrong` are the rows of each sentence, `first` what the first of them has. `is_whole` says whether every row was
    looked at.
    """

    entries: dict[int, dict[str, Any]] = field(default_factory=dict)
    wrong: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    first: dict[tuple[str, str], str] = field(default_factory=dict)
    by_line: set[tuple[str, str]] = field(default_factory=set)
    count: int = 0
    is_whole: bool = False

    def blame(self, number: int, message: str, hint: str, detail: str) -> None:
        """One more row of which a sentence is true."""
        self.wrong.setdefault((message, hint), []).append(number)
        self.first.setdefault((message, hint), detail)

    def faults(self, name: str, path: tuple[str | int, ...] = ("run", "prompts")) -> list[Diagnostic]:
        """One diagnostic for each thing that is wrong, with the rows in which it is."""
        found = []
        for (message, hint), numbers in self.wrong.items():
            rows = numbered("line" if (message, hint) in self.by_line else "row", numbers)
            rows += f" of `{name}`" if name else ""
            said = message.replace("{rows}", rows)
            if detail := self.first[message, hint]:
                said += f" ({detail})" if len(numbers) == 1 else f" (the first: {detail})"
            found.append(_fault(said, hint, path))
        return found


def _read(entries: Iterable[Any], images_per_prompt: int, rows: _Rows) -> None:
    """Fill `rows`, without the columns that a row does not have (an empty cell, a `null`).

    Raises:
        PromptsError: where there are too many, or they cannot be read further.
    """
    shapes: set[tuple[Any, ...]] = set()
    cells = wrong = 0
    for number, entry in enumerate(entries, 1):
        if number * images_per_prompt > MAX_PICTURES:
            raise PromptsError(f"the job has more than {MAX_PICTURES} pictures", _SPLIT)
        rows.count = number
        if isinstance(entry, Unread):
            rows.blame(entry.line or number, entry.message, entry.hint, entry.detail)
            rows.by_line |= {(entry.message, entry.hint)} if entry.line else set()
            faults = [("", None)]
        else:
            if isinstance(entry, dict):
                entry = {key: value for key, value in entry.items() if value is not None}
            faults = _row_faults(entry)
            for message, value in faults:
                rows.blame(number, message, _EVERY_ROW, "" if value is None else f"`{str(value)[:40]}`")
        if not faults and (size := _cells(entry)) < 0:
            faults = [(f"{{rows}}: nested deeper than {MAX_DEPTH} levels", None)]
            rows.blame(number, faults[0][0], "write plain values", "")
        if faults:
            wrong += 1
            if wrong == MAX_WRONG_ROWS:
                raise PromptsError(f"{wrong} rows cannot be used; the rest was not looked at", "mend these first")
            continue
        cells += size
        if cells > MAX_CELLS:
            raise PromptsError(f"the rows have more than {MAX_CELLS} cells", _SPLIT)
        if len(entry) > 1:
            shapes.add(tuple(str(entry.get(key)) for key in (*ROW_SIZES, *ROW_LENGTHS)))
            if len(shapes) > MAX_SHAPES:
                raise PromptsError(f"the rows have more than {MAX_SHAPES} different sizes", _SPLIT)
        rows.entries[number] = entry
    rows.is_whole = True


def read_rows(recipe: Recipe, root: Path) -> tuple[tuple[Row, ...], tuple[Diagnostic, ...]]:
    """Every picture of the job in prompt order.

    Row i and repeat r use `seed + i * images_per_prompt + r`; a row's own `seed` column, or `run.seeds`, comes first
    (its repeats count up from it).

    Emits: DC305 for a prompt file that cannot be used, each thing that is wrong with its rows, or seeds that do not
        match the prompts.
    """
    run = recipe.run
    if run.prompts is None:
        return (), (
            _fault("`run.prompts` is missing", "write a list of prompts, or a .txt, .jsonl or .csv file", ("run",)),
        )
    name = run.prompts if isinstance(run.prompts, str) else ""
    rows, ended = _Rows(), []
    try:
        _read(
            entries_of(root, name) if name else ({"prompt": prompt} for prompt in run.prompts),
            run.images_per_prompt,
            rows,
        )
    except PromptsError as error:
        ended = [_fault(error.message, error.hint)]
    faults = [*rows.faults(name), *ended]
    if rows.is_whole and not rows.count:
        return (), (_fault("there are no prompts", "write at least one"),)
    if run.id_column is not None:
        faults += _id_faults(run.id_column, name, rows)
    if rows.is_whole and run.seeds is not None and len(run.seeds) != rows.count:
        message = f"{len(run.seeds)} seeds for {rows.count} prompts"
        faults.append(_fault(message, "give one seed for each prompt", ("run", "seeds")))
    if faults:
        return (), bounded(faults, MAX_KINDS)
    return tuple(_expand(recipe, list(rows.entries.values()))), ()


def _id_faults(column: str, name: str, rows: _Rows) -> list[Diagnostic]:
    """Why a column cannot name the rows that could be read."""
    path = ("run", "id_column")
    hint = "name a column that every row of a .jsonl or .csv file has"
    if column in ("prompt", "negative_prompt", "seed", PICTURES):
        return [_fault(f"`id_column` is `{column}`, which is an argument of the row and no name", hint, path)]
    nameless = _Rows()
    for number, row in rows.entries.items():
        value = row.get(column)
        if not isinstance(value, (str, int)) or isinstance(value, bool) or not str(value).strip():
            nameless.blame(number, f"{{rows}}: no name under `{column}`", hint, "")
    return nameless.faults(name, path)


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
