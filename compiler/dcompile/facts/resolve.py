"""Stage 3: from the names in a recipe to what is known about them."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from pathlib import Path

from dcompile.core.diagnostics import Diagnostic, Severity, has_errors
from dcompile.core.units import format_bytes, parse_bytes
from dcompile.facts import registry
from dcompile.facts.folder import FactsError, facts_of_folder
from dcompile.facts.prompts import Row, read_rows
from dcompile.facts.types import HardwareFacts, ModelFacts
from dcompile.recipe.model import Devices, Recipe


@dataclass(frozen=True)
class DeviceFacts:
    """The machine: `node` has one entry for each device of a node, or one for all where `per_node` is open."""

    kind: str
    node: tuple[HardwareFacts, ...]
    per_node: int | None
    nodes: int
    reserve_bytes: int
    has_memory: bool

    @property
    def total(self) -> int | None:
        """Devices of the job; None on CPU without `per_node`, where there are as many as the plan needs."""
        return None if self.per_node is None else self.per_node * self.nodes

    def memory_bytes(self, device: int) -> int | None:
        """Memory of a device of a node; None where it is not known."""
        return self.node[device % len(self.node)].memory_bytes if self.has_memory else None


@dataclass(frozen=True)
class Facts:
    """Everything a rule may ask: the model, the machine, the rows."""

    model: ModelFacts
    devices: DeviceFacts
    rows: tuple[Row, ...]
    model_is_local: bool = False


def _unknown(
    code: str, what: str, name: str, known: tuple[str, ...], path: tuple[str | int, ...], hint: str
) -> Diagnostic:
    close = difflib.get_close_matches(name, known, n=1)
    return Diagnostic(
        code,
        Severity.ERROR,
        f"`{name}` is not a known {what}",
        f"did you mean `{close[0]}`? {hint}" if close else hint,
        path,
    )


def _model(recipe: Recipe, root: Path) -> tuple[ModelFacts | None, bool, list[Diagnostic]]:
    model = recipe.model
    known = registry.known_models()
    if model.like is not None:
        if model.like not in known:
            hint = "`like` names a model of `dcompile models`"
            return None, False, [_unknown("DC301", "model", model.like, known, ("model", "like"), hint)]
        return registry.load_model(model.like), False, []
    if model.path is not None:
        folder = root / model.path
        try:
            return facts_of_folder(folder), True, []
        except FactsError as error:
            return None, False, [Diagnostic("DC303", Severity.ERROR, error.message, error.hint, ("model", "path"))]
    name = model.id or ""
    if name not in known:
        hint = "`dcompile models` lists what is known; for a fine-tune add `like: <known id>`, for a folder use `path`"
        return None, False, [_unknown("DC301", "model", name, known, ("model", "id"), hint)]
    return registry.load_model(name), False, []


def _devices(recipe: Recipe) -> tuple[DeviceFacts | None, list[Diagnostic]]:
    section = recipe.devices if isinstance(recipe.devices, Devices) else Devices()
    names = section.gpus or ((section.gpu,) if section.gpu else ())
    known = registry.known_hardware()
    found = [
        _unknown(
            "DC302",
            "device",
            name,
            known,
            ("devices", "gpus" if section.gpus else "gpu"),
            "`dcompile hardware` lists them",
        )
        for name in names
        if name not in known
    ]
    if found:
        return None, found
    memory = parse_bytes(section.memory) if section.memory else None
    if names:
        node = tuple(registry.load_hardware(name) for name in names)
        if memory is not None and memory > min(device.memory_bytes for device in node):
            has = min(node, key=lambda device: device.memory_bytes)
            message = f"{section.memory} is more than a {has.name} has ({format_bytes(has.memory_bytes)})"
            return None, [
                Diagnostic(
                    "DC307",
                    Severity.ERROR,
                    message,
                    "leave `memory` out, or name the right device",
                    ("devices", "memory"),
                )
            ]
    else:
        bare = section.kind or "cpu"
        unknown = HardwareFacts(bare, bare, memory or 0, 0.0, 0.0, section.link or "host", 0.0, "the recipe")
        node = (unknown,)
    if memory is not None:
        node = tuple(replace(device, memory_bytes=memory) for device in node)
    if section.link is not None:
        node = tuple(replace(device, link=section.link) for device in node)
    per_node = section.per_node or (len(section.gpus) if section.gpus else len(section.ids) if section.ids else None)
    kind: str = section.kind or node[0].kind
    if per_node is None and kind != "cpu":
        per_node = 1
    # The CUDA context, NCCL's buffers and the allocator's slack: 1 GiB is what an idle process with NCCL keeps on an
    # H100 (about 0.5 GiB context, 0.3 to 0.5 GiB buffers). `devices.reserve` overrides it.
    reserve = parse_bytes(section.reserve) if section.reserve else 0 if kind == "cpu" else 2**30
    return DeviceFacts(kind, node, per_node, section.nodes, reserve, bool(names or memory)), []


def resolve(recipe: Recipe, root: Path) -> tuple[Facts | None, tuple[Diagnostic, ...]]:
    """Look up the model, the devices and the prompts that a recipe names.

    Args:
        root: the recipe's folder; relative paths start there.

    Emits: DC301 unknown model, DC302 unknown device, DC303 unusable folder, DC305 prompts, DC307 too much memory.
    """
    model, is_local, found = _model(recipe, root)
    devices, device_faults = _devices(recipe)
    rows, row_faults = read_rows(recipe, root)
    diagnostics = (*found, *device_faults, *row_faults)
    if model is None or devices is None or has_errors(diagnostics):
        return None, diagnostics
    return Facts(model, devices, rows, is_local), diagnostics
