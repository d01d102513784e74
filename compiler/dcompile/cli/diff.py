"""`dcompile diff A B`: what moves between two recipes or plans; `dcompile RECIPE --check`: is the bundle current."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from dcompile.cli import render
from dcompile.cli.results import print_result
from dcompile.core.safe_text import say
from dcompile.core.units import format_bytes, format_seconds
from dcompile.driver import Compiled, compile_recipe
from dcompile.emit.devices import alike, say_devices
from dcompile.emit.difference import Difference, as_written, difference
from dcompile.emit.words import layout_text, mesh_text

DIFFERENT = 3
MOST_OTHER = 20
"""Lines of what no part of its own shows; `--format json` has all of them."""
_LABELS = {
    "memory_bytes": "memory",
    "activation_bytes": "activations (estimate)",
    "reserve_bytes": "reserve",
    "free_bytes": "free",
}
_SECONDS = {
    "step_seconds": "a step",
    "communication_seconds": "exchange of a step",
    "encode_seconds": "encode",
    "decode_seconds": "decode",
    "offload_seconds": "copies from the host, each call",
    "load_seconds": "load",
    "total_seconds": "in all",
}


def diff(options: argparse.Namespace) -> int:
    """`dcompile diff A B`: 0, or 3 where they differ and `--exit-code` is given; 1 where a recipe is wrong."""
    plans = [_plan_of(file, options.root) for file in (options.a, options.b)]
    if 2 in plans:
        return 2
    if 1 in plans:
        return 1
    a, b = (plan for plan in plans if isinstance(plan, dict))
    found = difference(a, b)
    if options.format == "json":
        sides = {
            side: {"file": file, "name": plan["name"], "recipe_digest": plan["recipe_digest"]}
            for side, file, plan in (("a", options.a, a), ("b", options.b, b))
        }
        print(json.dumps({**sides, **found}, indent=2, ensure_ascii=False))
    else:
        print("\n".join(diff_lines(found, options.a, options.b)))
    return DIFFERENT if found["is_different"] and options.exit_code else 0


def _plan_of(file: str, roots: list[str]) -> dict[str, Any] | int:
    """The plan in a `plan.json` or a bundle's folder, or that of a recipe; else the exit code, after saying why."""
    path = Path(file)
    if path.is_dir() and (path / "plan.json").is_file():
        path = path / "plan.json"
    if path.suffix == ".json":
        from dcompile.runtime.errors import RunError
        from dcompile.runtime.worker import read_plan

        try:
            return read_plan(path)[0]
        except (RunError, OSError) as error:
            reason = f"{file}: {error.strerror or error}" if isinstance(error, OSError) else say(str(error))
            print(f"dcompile: {reason}", file=sys.stderr)
            return 2
    try:
        compiled = compile_recipe(path, (), [Path(root) for root in roots])
    except OSError as error:
        print(f"dcompile: {file}: {error.strerror or error}", file=sys.stderr)
        return 2
    render.report(compiled)
    return as_written(compiled.plan_json) if compiled.is_valid and compiled.plan_json is not None else 1


def check_bundle(compiled: Compiled, is_json: bool) -> int:
    """`dcompile RECIPE --check`: 0 where the written bundle is the one that compiling would write, else 3."""
    from dcompile.emit.bundle import bundle_folder, stale_files

    assert compiled.plan_json is not None
    assert compiled.bundle is not None
    folder = bundle_folder(compiled.plan_json)
    missing, differ = stale_files(compiled.bundle, folder)
    if is_json:
        status = "out of date" if missing or differ else "current"
        print_result(compiled, {"status": status, "folder": str(folder), "missing": missing, "differ": differ})
        return DIFFERENT if missing or differ else 0
    if not missing and not differ:
        print(f"{folder}/ is current")
        return 0
    what = [f"{', '.join(differ)} differ{'s' if len(differ) == 1 else ''}"] if differ else []
    what += [f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"] if missing else []
    print(f"{folder}/ is out of date: {'; '.join(what)}")
    print("  compile the recipe to write it", file=sys.stderr)
    if "plan.json" in differ:
        print(f"  `dcompile diff {folder}/plan.json RECIPE` shows what moves", file=sys.stderr)
    return DIFFERENT


def diff_lines(found: Difference, a: str, b: str) -> Iterator[str]:
    """A difference for people."""
    yield f"{say(a)} -> {say(b)}"
    if not found["is_different"]:
        yield "  no difference: the same plan"
        return
    if found["strategy"]:
        yield _row("strategy", found["strategy"], str)
    if found["mesh"]:
        yield _row("mesh", found["mesh"], mesh_text)
    for component in found["components"]:
        yield _row(component["name"], component, _layout_text)
    # Devices that change alike are one block.
    for device, numbers in alike(found["devices"]):
        yield from _device_lines(device, say_devices(numbers))
    for moved in found["traffic"]:
        yield _row(
            f"a step: {moved['collective']}", moved, lambda one: f"{one['calls']} of {format_bytes(one['bytes'])}"
        )
    for time in found["estimate"]:
        if time["what"] in _SECONDS:
            yield _row(f"estimate: {_SECONDS[time['what']]}", time, format_seconds)
    for decision in found["decisions"]:
        yield _row(f"decision: {decision['what']}", decision, lambda one: one["chosen"])
        yield from (f"    {side}: {say(decision[side]['because'])}" for side in "ab" if decision[side])
    rest = [other for other in found["other"] if not _follows(other["path"], found)]
    yield from (_row(other["path"], other, _short) for other in rest[:MOST_OTHER])
    if len(rest) > MOST_OTHER:
        yield f"  and {len(rest) - MOST_OTHER} more values of the plan (`--format json` has all)"


def _follows(path: str, found: Difference) -> bool:
    """Whether a value of the program says again what the mesh, the devices or a component's layout said."""
    if path.startswith(("program.mesh_axes", "program.ranks", "program.devices_per_rank")):
        return bool(found["mesh"] or found["devices"])
    return any(
        path.startswith(f"program.components.{component['name']}.{key}")
        for component in found["components"]
        for key in ("tensor", "context", "blocks", "device")
    )


def _row(label: str, pair: dict[str, Any], text: Callable[[Any], str]) -> str:
    a, b = ("-" if pair[side] is None else text(pair[side]) for side in "ab")
    return f"  {say(f'{label}: {a} -> {b}')}"


def _layout_text(component: dict[str, Any]) -> str:
    return f"{layout_text(component['layout'])}, {format_bytes(component['weight_bytes'])}"


def _device_lines(device: dict[str, Any], title: str) -> Iterator[str]:
    only = {"a": ": not there any more", "b": ": new"}.get(device["only_in"], "")
    yield f"  {title}{only}"
    for part in device["components"]:
        yield _bytes_row(part["name"], part)
    for key, label in _LABELS.items():
        if key in device:
            yield _bytes_row(label, device[key])
    for phase in device["phases"]:
        held = {
            side: one and sum(one[key] for key in ("weight_bytes", "activation_bytes"))
            for side, one in phase.items()
            if side in "ab"
        }
        if held["a"] != held["b"]:
            yield _bytes_row(f"in {phase['phase']}", held)


def _bytes_row(label: str, pair: dict[str, int | None]) -> str:
    a, b = ("-" if pair[side] is None else format_bytes(pair[side]) for side in "ab")  # type: ignore[arg-type]
    change = (pair["b"] or 0) - (pair["a"] or 0)
    sign = "+" if change > 0 else "-"
    return f"    {say(label):<24} {a:>12} -> {b:>12}  {sign}{format_bytes(abs(change))}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."
