"""`--format json` of the commands that do something: one object each, with the findings about the recipe in it.

`findings` is what `dcompile check --format json` prints. Keys are added, never renamed or removed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dcompile.cli import render
from dcompile.core.diagnostics import dotted
from dcompile.driver import Compiled
from dcompile.recipe.canonical import canonical
from dcompile.source.document import OVERRIDE, items

if TYPE_CHECKING:
    from dcompile.runtime.launch import Outcome

_SUMMARY = ("strategy", "mesh", "devices", "traffic", "estimate")


def print_result(compiled: Compiled, result: dict[str, Any]) -> None:
    """The one object that a command prints."""
    found = render.locate(compiled.diagnostics, compiled.document, str(compiled.file), strict=False)
    print(json.dumps({**result, "findings": render.as_objects(found)}, indent=2, ensure_ascii=False))


def of_bundle(bundle: dict[str, str], folder: Path) -> dict[str, Any]:
    """What was planned, as `plan.json` has it, and what was written."""
    plan = json.loads(bundle["plan.json"])
    return {
        "name": plan["name"],
        "folder": str(folder),
        "files": [str(folder / name) for name in bundle],
        "ranks": plan["program"]["ranks"],
        "pictures": len(plan["program"]["run"]["rows"]),
        "output": plan["program"]["output"],
        **{key: plan[key] for key in _SUMMARY if key in plan},
    }


def of_config(compiled: Compiled) -> dict[str, Any]:
    """The recipe in full, and for every value where it comes from: a file, `--set`, or nowhere (a default)."""
    assert compiled.recipe is not None
    assert compiled.document is not None
    full = canonical(compiled.recipe)
    origins = {}
    for path, _ in items(full):
        place: dict[str, Any] = {"from": "default"}
        if path in compiled.document.values:
            file, span = compiled.document.position(path)
            place = {"from": OVERRIDE} if file == OVERRIDE else {"from": "file", "file": file, "line": span.line}
        origins[dotted(path)] = place
    return {"recipe": full, "origins": origins}


def of_run(plan: dict[str, Any], path: Path, outcome: Outcome) -> dict[str, Any]:
    """What a run made and where it lies; `made` and `skipped` are null where it did not come to its end."""
    output = plan["program"]["output"]
    fault, made = outcome.fault, outcome.made
    return {
        "status": {0: "done", 130: "interrupted"}.get(outcome.code, "failed"),
        "plan": str(path),
        "output": {**output, "manifest": str(Path(output["dir"]) / "manifest.json")},
        "pictures": len(plan["program"]["run"]["rows"]),
        "made": made.made if made is not None else None,
        "skipped": made.skipped if made is not None else None,
        "blackened": list(made.blackened) if made is not None else [],
        "seconds": round(outcome.seconds, 3),
        "error": None if fault is None else {"rank": fault.rank, "message": fault.sentence},
    }
