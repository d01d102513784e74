"""`dcompile probe [RECIPE]`: measures this machine and writes a hardware file. Progress goes to stderr."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dcompile.core.units import format_bytes, format_rate, format_seconds

if TYPE_CHECKING:
    from dcompile.machine.devices import Machine
    from dcompile.machine.hardware_file import Found

DTYPES = ("float32", "bfloat16", "float16")
CPU_RANKS = 4
"""Ranks that are tried on a CPU at most; devices of its own it has none."""


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    command.add_argument("recipe", metavar="RECIPE", nargs="?", help="measure in the dtype of this job")
    command.add_argument("--output", "-o", default="machine.yaml", metavar="FILE", help="machine.yaml otherwise")
    command.add_argument("--overwrite", action="store_true", help="replace the file")
    command.add_argument("--format", choices=("text", "json"), default="text")
    command.add_argument("--kind", choices=("cuda", "xpu", "cpu"), help="what torch finds otherwise")
    command.add_argument("--dtype", choices=DTYPES, help="of the speeds; that of the recipe otherwise")
    command.add_argument("--ranks", type=int, metavar="N", help="devices that take part in collectives; all otherwise")
    command.add_argument("--seconds", type=float, default=60.0, help="how long collectives may take (60)")


def probe(options: argparse.Namespace) -> int:
    """0 where everything was measured that can be; 1 for a wrong recipe; 2 where it could not be done."""
    path = Path(options.output)
    if path.exists() and not options.overwrite:
        return _no(f"{path} exists; name another file with --output, or replace it with --overwrite")
    if importlib.util.find_spec("torch") is None:
        return _no("measuring needs torch: pip install 'dcompile[run]'")
    if options.seconds <= 0 or (options.ranks is not None and options.ranks < 1):
        return _no("`--seconds` and `--ranks` must be more than 0")
    from dcompile.machine.devices import look

    try:
        machine = look(options.kind)
    except ValueError as error:
        return _no(str(error))
    if options.ranks is not None and machine.kind != "cpu" and options.ranks > len(machine.devices):
        return _no(f"{options.ranks} ranks need as many devices, and this machine has {len(machine.devices)}")
    dtype = options.dtype or ("float32" if machine.kind == "cpu" else "bfloat16")
    if options.recipe is not None and options.dtype is None:
        from dcompile.cli.commands import compile_or_report

        compiled = compile_or_report(options)
        if compiled is None or compiled.plan is None:
            return 1
        denoiser = compiled.plan.checked.subject.facts.model.denoisers[0]
        dtype = next(part.dtype for part in compiled.plan.components if part.name == denoiser)
    found = _measure(machine, dtype, options.ranks, options.seconds)

    from dcompile.core.files import write_whole
    from dcompile.machine.hardware_file import document_of, file_text

    write_whole(path, file_text(found, path.name))
    if options.format == "json":
        print(json.dumps(document_of(found), indent=2))
    else:
        print("\n".join(_summary(found, path)))
    return 0


def _no(sentence: str) -> int:
    print(f"dcompile: {sentence}", file=sys.stderr)
    return 2


def _say(sentence: str) -> None:
    print(f"dcompile: {sentence}", file=sys.stderr, flush=True)


def _measure(machine: Machine, dtype: str, ranks: int | None, limit_seconds: float) -> Found:
    import torch

    from dcompile.machine.devices import link_of
    from dcompile.machine.hardware_file import Found
    from dcompile.machine.rates import measure_speed

    link, topology = link_of(machine)
    missing: list[str] = []
    speeds: list[dict[str, float]] = []
    threads = torch.get_num_threads()
    try:
        if machine.kind == "cpu":
            torch.set_num_threads(1)  # what a rank of several has
        for index, device in enumerate(machine.devices):
            where = torch.device("cpu") if machine.kind == "cpu" else torch.device(machine.kind, index)
            speed = measure_speed(where, getattr(torch, dtype))
            speeds.append(speed)
            rate = speed.get("matmul_flops_per_second")
            products = format_rate(rate, "FLOP/s") if rate else "found no room"
            _say(f"device {index}, {device.name}: matrix products {products} in {dtype}")
    except RuntimeError as error:
        speeds = []
        missing.append(f"Speeds were not measured: {_first_line(error)}")
    finally:
        torch.set_num_threads(threads)
    count = ranks or (min(CPU_RANKS, os.cpu_count() or 1) if machine.kind == "cpu" else len(machine.devices))
    collectives = _collectives(machine.kind, count, limit_seconds, missing) if count > 1 else []
    for sentence in missing:
        _say(sentence)
    versions = _versions(machine.kind)
    return Found(machine, versions, link, topology, dtype, tuple(speeds), tuple(collectives), tuple(missing))


def _collectives(kind: str, count: int, limit_seconds: float, missing: list[str]) -> list[dict[str, Any]]:
    from dcompile.machine.collectives import measure_collectives
    from dcompile.runtime.errors import RunError

    try:
        return [dict(point) for point in measure_collectives(kind, count, limit_seconds)]
    except RunError as error:
        missing.append(f"Collectives were not measured: {_first_line(error)}")
        return []


def _first_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]


def _versions(kind: str) -> dict[str, str]:
    import torch

    from dcompile import __version__

    found = {"dcompile": __version__, "torch": str(torch.__version__)}
    if kind == "cuda" and torch.version.cuda is not None:
        found["cuda"] = str(torch.version.cuda)
        found["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    return found


def _summary(found: Found, path: Path) -> list[str]:
    from dcompile.machine.hardware_file import speeds_of

    machine = found.machine
    names = dict.fromkeys(device.name for device in machine.devices)
    size = f", {format_bytes(machine.smallest_bytes)} each" if machine.smallest_bytes else ""
    lines = [f"{len(machine.devices)} x {', '.join(names)}{size}"]
    if found.link is not None and found.topology is not None:
        lines.append(f"  link: {found.link} (the slowest of {', '.join(found.topology.kinds)})")
    for index, speed in enumerate(speeds := speeds_of(found)):
        if len(speeds) > 1:
            lines.append(f"  device {index}, {machine.devices[index].name}:")
        for key, what, unit in (
            ("matmul_flops_per_second", "matrix products", "FLOP/s"),
            ("attention_flops_per_second", "attention", "FLOP/s"),
            ("memory_bytes_per_second", "memory", "B/s"),
        ):
            if key in speed:
                lines.append(f"  {what:<16} {format_rate(speed[key], unit)} in {found.dtype}")
        if "host_seconds_per_block" in speed:
            lines.append(f"  {'host':<16} {format_seconds(speed['host_seconds_per_block'])} a block")
    largest = {(point["operation"], point["ranks"]): point for point in found.collectives}
    for (operation, ranks), point in largest.items():
        took = f"{format_seconds(point['seconds'])} for {format_bytes(point['bytes'])}"
        lines.append(f"  {operation:<16} {took}, {ranks} ranks")
    return [*lines, f"written: {path}; name it in a recipe (`devices: {path.name}`) or with `--devices {path}`"]
