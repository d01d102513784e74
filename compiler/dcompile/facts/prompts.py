"""The rows of a job: prompts from the recipe or a file, each picture with its own seed."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dcompile.core.diagnostics import Diagnostic, Severity
from dcompile.recipe.model import Recipe

_SUFFIXES = (".txt", ".jsonl", ".csv")
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
    """A CSV cell as the number it is, else as text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _entries(file: Path) -> list[dict[str, Any]]:
    text = file.read_text(encoding="utf-8-sig")
    if file.suffix == ".txt":
        return [{"prompt": line.strip()} for line in text.splitlines() if line.strip()]
    if file.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    rows = csv.DictReader(text.splitlines())
    return [
        {key: value if key in ("prompt", "negative_prompt") else _number(value) for key, value in row.items() if value}
        for row in rows
    ]


def read_rows(recipe: Recipe, root: Path) -> tuple[tuple[Row, ...], tuple[Diagnostic, ...]]:
    """Every picture of the job in prompt order.

    Row i and repeat r use `seed + i * images_per_prompt + r`; a row's own `seed` column, or `run.seeds`, comes first
    (its repeats count up from it).

    Emits: DC305 for a prompt file that cannot be used, or seeds that do not match the prompts.
    """
    run = recipe.run
    entries: list[dict[str, Any]]
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
    bad = [
        i for i, entry in enumerate(entries) if not isinstance(entry, dict) or not isinstance(entry.get("prompt"), str)
    ]
    if bad:
        return (), (
            _fault(f"row {bad[0] + 1} of {run.prompts} has no text under `prompt`", "every row needs a prompt"),
        )
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
