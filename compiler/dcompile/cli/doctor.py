"""`dcompile doctor [RECIPE]`: what is installed, and what this machine lacks for a recipe."""

from __future__ import annotations

import argparse
import importlib.util
import json
import platform
import shlex
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dcompile import __version__
from dcompile.cli.environment import EXTRA, arguments_of_pip, installed, needed_modules, other_versions
from dcompile.core.planned_devices import Found, device_faults, device_notes, numbers_of
from dcompile.core.units import format_bytes
from dcompile.driver import Compiled

_DISTRIBUTION = {"PIL": "Pillow", "imageio_ffmpeg": "imageio-ffmpeg"}


@dataclass(frozen=True)
class Finding:
    """One line: a thing, whether it is as it has to be, what was found, and what to do where it is not."""

    what: str
    is_fine: bool
    found: str
    hint: str = ""


def packages() -> list[Finding]:
    """The libraries of all extras; none of them is imported. What is absent is no fault as long as nothing needs it."""
    found = [Finding("python", True, platform.python_version()), Finding("dcompile", True, __version__)]
    for module, extra in EXTRA.items():
        name = _DISTRIBUTION.get(module, module)
        here = installed(name)
        found.append(Finding(name, True, here or f"not installed (extra `{extra}`)"))
    return found


def facts() -> list[Finding]:
    """The versions that verdicts go by."""
    from dcompile.facts.registry import known_versions

    return [Finding(f"facts of {name}", True, version) for name, version in known_versions().items()]


def devices() -> list[Finding]:
    """The accelerators of this machine, as torch sees them."""
    kind, count, memory_bytes = _devices_here()
    if kind == "cpu":
        return [Finding("devices", True, "no accelerator: recipes of `kind: cpu` run here")]
    return [Finding("devices", True, f"{count} of {kind}, {format_bytes(memory_bytes)} each")]


def _devices_here() -> tuple[str, int, int]:
    from dcompile.cli.init import devices_here

    return devices_here()


def needs(compiled: Compiled, root: Path) -> list[Finding]:
    """What a valid recipe needs of this machine."""
    plan = compiled.plan_json
    if plan is None:
        raise AssertionError("a valid recipe has a plan")
    found = [_module(name) for name in needed_modules(plan)]
    other = {name: (wanted, here) for name, wanted, here in other_versions(plan["requires"])}
    for name, wanted in plan["requires"].items():
        here = installed(name)
        if here is not None:
            hint = f"pip install '{name}{wanted if wanted[:1] in '<>=!' else f'=={wanted}'}'"
            found.append(Finding(f"{name} for {wanted}", name not in other, here, hint if name in other else ""))
    return [*found, *_machine(plan), *_model(plan, root), *_adapters(plan, root)]


def _module(name: str) -> Finding:
    if importlib.util.find_spec(name) is not None:
        return Finding(f"module {name}", True, "installed")
    return Finding(f"module {name}", False, "missing", f"pip install {shlex.join(arguments_of_pip([name]))}")


def _machine(plan: dict[str, Any]) -> Iterator[Finding]:
    """The accelerators: their kind and number, and what `run` would say of each."""
    from dcompile.machine.devices import look

    program = plan["program"]
    kind = program["device_kind"]
    count = program["ranks_per_node"] * program["devices_per_rank"]
    if kind == "cpu":
        yield Finding(f"{count} logical device(s) of kind cpu", True, "any machine has them")
        return
    machine = look()
    here = [Found(device.name, device.memory_bytes) for device in machine.devices]
    is_fine = machine.kind == kind and len(numbers_of(program, len(here))) >= count
    found = f"{len(here)} of {machine.kind}"
    hint = "" if is_fine else "run it where they are, or name this machine in `devices`"
    yield Finding(f"{count} device(s) of kind {kind}", is_fine, found, hint)
    for fault in device_faults(plan, here, range(count)) if machine.kind == kind else ():
        what, _, way_out = fault.partition(": ")
        yield Finding("a device of the plan", False, what, way_out)
    for note in device_notes(plan, here, range(count)) if machine.kind == kind else ():
        yield Finding("a device of the plan", True, note)


def _model(plan: dict[str, Any], root: Path) -> list[Finding]:
    """Whether the weights are here: a folder or file, or a copy in the hub's cache."""
    from dcompile.facts.hub_cache import snapshot_of

    pipeline = plan["program"]["pipeline"]
    if pipeline["path"] is not None:
        path = root / pipeline["path"]
        there = path.exists()
        return [Finding(f"model {path}", there, "there" if there else "missing", "" if there else "copy it there")]
    snapshot = snapshot_of(pipeline["id"], pipeline["revision"])
    found = "in the hub's cache" if snapshot else "not in the hub's cache: `run` downloads it"
    return [Finding(f"model {pipeline['id']}", True, found)]


def _adapters(plan: dict[str, Any], root: Path) -> list[Finding]:
    found = []
    for adapter in plan["program"]["pipeline"]["adapters"]:
        path = root / adapter["path"]
        is_hub_id = not path.exists() and adapter["path"].count("/") == 1 and not path.suffix
        state = "there" if path.exists() else "taken for a hub id: `run` downloads it" if is_hub_id else "missing"
        there = path.exists() or is_hub_id
        found.append(Finding(f"adapter {adapter['path']}", there, state, "" if there else "copy it there"))
    return found


def doctor(options: argparse.Namespace) -> int:
    """`dcompile doctor [RECIPE]`: 0 where nothing is missing, 1 for a wrong recipe, 2 where it cannot run here."""
    found = [*packages(), *facts()]
    if options.recipe is None:
        found += devices()
    else:
        from dcompile.cli.commands import compile_or_report

        compiled = compile_or_report(options)
        if compiled is None:
            return 1
        found += needs(compiled, Path(options.recipe).resolve().parent)
    if options.format == "json":
        print(json.dumps([asdict(finding) for finding in found], indent=2))
    else:
        width = max(len(finding.what) for finding in found)
        for finding in found:
            print(f"{'ok' if finding.is_fine else '!!'}  {finding.what:<{width}}  {finding.found}")
            if finding.hint:
                print(f"    {'':<{width}}  {finding.hint}")
    return 0 if all(finding.is_fine for finding in found) else 2
