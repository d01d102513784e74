"""The estimate against published times: the order of plans within a table, and how far a time is off.

`python tests/benchmarks/test_published_times.py` writes the table into `compiler/docs/estimate.md`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from dcompile.estimate.job import estimate
from dcompile.facts.resolve import resolve
from dcompile.recipe.model import Recipe
from dcompile.rules.rule import subject_of

ROOT = Path(__file__).parents[2]
TABLES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "published_times.json").read_text(encoding="utf-8"))[
    "tables"
]
PAGE = ROOT / "compiler" / "docs" / "estimate.md"
START, END = "<!-- times -->\n", "<!-- end of times -->\n"


@dataclass(frozen=True)
class Row:
    """One published time beside the estimate of it, in seconds."""

    plan: str
    measured: float
    predicted: float
    fitted: bool

    @property
    def ratio(self) -> float:
        return self.predicted / self.measured


def rows_of(table: dict[str, Any]) -> list[Row]:
    rows = []
    for row in table["rows"]:
        run = {key: table[key] for key in ("steps", "height", "width") if key in table}
        devices = {"gpu": table["gpu"], "per_node": row["devices"], "link": table.get("link")}
        text = {
            "version": 1,
            "model": {"id": table["model"], "dtype": "bfloat16"},
            "devices": devices,
            "parallel": row["plan"],
            "run": {"prompts": ("a fox",), **run},
            "components": {
                name: {"quantize": row["quantize"]} for name in ("transformer", "text_encoder_2") if "quantize" in row
            },
        }
        recipe = Recipe.model_validate(text)
        facts, _ = resolve(recipe, ROOT)
        assert facts is not None
        subject = subject_of(recipe, facts)
        found = estimate(recipe, facts, subject.splits, subject.owned.placement, table.get("state", "eager"))
        plan = json.dumps(row["plan"]).replace('"', "") if row["plan"] else "one device"
        plan += f", {row['quantize']['type']} of {row['quantize']['method']}" if "quantize" in row else ""
        is_step = table.get("of") == "step"
        predicted = found["step_seconds"] if is_step else found["total_seconds"] - found["load_seconds"]
        rows.append(Row(plan, row["seconds"], predicted, row.get("fitted", False)))
    return rows


def kendall(rows: list[Row]) -> float:
    """Kendall's tau: pairs in the same order less pairs in the other, over all pairs that were not measured alike."""
    apart = [(a, b) for a, b in combinations(rows, 2) if a.measured != b.measured]
    pairs = [(a.measured - b.measured) * (a.predicted - b.predicted) for a, b in apart]
    return sum((pair > 0) - (pair < 0) for pair in pairs) / len(pairs)


def off(ratio: float) -> float:
    """How many times too long or too short."""
    return max(ratio, 1 / ratio)


def medians(rows: list[Row]) -> str:
    """The median of how far off rows are: of all, of those that gave constants, and of predictions."""
    parts = []
    for what, these in (
        ("fitted", [row for row in rows if row.fitted]),
        ("predicted", [row for row in rows if not row.fitted]),
    ):
        if these:
            parts.append(f"{what} {median(off(row.ratio) for row in these):.2f}")
    every = median(off(row.ratio) for row in rows)
    return f"{every:.2f} ({', '.join(parts)})" if len(parts) > 1 else parts[0]


def report() -> str:
    lines = ["| plan | measured s | estimate s | ratio | |", "|---|---|---|---|---|"]
    for table in TABLES:
        rows = rows_of(table)
        tau = f"; tau {kendall(rows):.2f}" if len(rows) > 1 else ""
        lines.append(f"| **{table['name']}** ({table['source']}){tau}; median {medians(rows)} | | | | |")
        lines += [
            f"| `{row.plan}` | {row.measured:.4g} | {row.predicted:.4g} | {row.ratio:.2f} |"
            f" {'fitted' if row.fitted else ''} |"
            for row in rows
        ]
    rows = [row for table in TABLES for row in rows_of(table)]
    new = [row for row in rows if not row.fitted]
    lines.append(
        f"\nMedian over all {len(rows)} rows: {medians(rows)}. {len(rows) - len(new)} rows gave constants; {len(new)}"
        f" are predictions, of which the worst is {max(off(row.ratio) for row in new):.2f} times off."
    )
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("table", [table for table in TABLES if len(table["rows"]) > 1], ids=lambda t: t["name"])
def test_plans_are_ordered_as_they_were_measured(table: dict[str, Any]) -> None:
    # Ulysses and ring on two H100 were 3 % apart when compiled, which the estimate does not tell.
    assert kendall(rows_of(table)) >= (0.86 if table["name"].endswith("H100, compiled") else 0.9)


def test_times_are_near_those_measured() -> None:
    rows = [row for table in TABLES for row in rows_of(table)]
    predictions = [off(row.ratio) for row in rows if not row.fitted]
    assert len(predictions) > 15
    assert median(predictions) <= 1.3
    assert median(off(row.ratio) for row in rows) <= 1.3


def test_the_page_has_these_numbers() -> None:
    text = PAGE.read_text(encoding="utf-8")
    made = text[text.index(START) + len(START) : text.index(END)]
    assert made.strip() == report().strip(), f"stale: run python {Path(__file__).relative_to(ROOT)}"


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    before, after = text[: text.index(START) + len(START)], text[text.index(END) :]
    PAGE.write_text(f"{before}\n{report()}\n{after}", encoding="utf-8")
