"""Stage 3: from the names in a recipe to what is known about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dcompile.core.diagnostics import Diagnostic, Severity, bounded, has_errors
from dcompile.core.meant import meant, nearest, of_some_owner, with_parts
from dcompile.core.units import format_bytes, parse_bytes
from dcompile.facts import registry
from dcompile.facts.adapters import AdapterFacts, adapter_facts
from dcompile.facts.errors import FactsError, WeightsError
from dcompile.facts.folder import facts_of_folder
from dcompile.facts.hub_cache import revisions_of, snapshot_of
from dcompile.facts.links import link_faults
from dcompile.facts.pipelines import DENOISERS
from dcompile.facts.project import find, known_here
from dcompile.facts.prompts import Row, read_rows
from dcompile.facts.single_file import facts_of_file
from dcompile.facts.types import HardwareFacts, MeasuredCurves, MeasuredSpeed, ModelFacts
from dcompile.recipe.model import Devices, Measured, Recipe

if TYPE_CHECKING:
    from dcompile.facts.pictures import Picture

_HOW_TO_ADD = (
    "`dcompile models` lists what is known; for a fine-tune add `like: <known id>`; where its files are, "
    "`dcompile models add <folder or id>` writes its facts beside the recipes"
)

MOST_SHOWN = 6
"""Names that a hint lists at most."""

BROKEN_WEIGHTS = "DC316"
"""A weight file that is missing or broken: a fault of the machine as much as of the recipe."""


@dataclass(frozen=True)
class DeviceFacts:
    """The machine.

    Attributes:
        node: one entry for each device of a node, or one for all where they are alike.
        per_node: devices of a node; None on CPU where it is open.
        node_link: how the recipe says that nodes are linked.
        curves: collectives within a node, as they were measured; empty where the tables hold.
    """

    kind: str
    node: tuple[HardwareFacts, ...]
    per_node: int | None
    nodes: int
    reserve_bytes: int
    has_memory: bool
    node_link: str | None = None
    curves: MeasuredCurves = field(default_factory=dict)

    @property
    def total(self) -> int | None:
        """Devices of the job; None on CPU without `per_node`, where there are as many as the plan needs."""
        return None if self.per_node is None else self.per_node * self.nodes

    def memory_bytes(self, device: int) -> int | None:
        """Memory of a device of a node; None where it is not known."""
        return self.node[device % len(self.node)].memory_bytes if self.has_memory else None


@dataclass(frozen=True)
class Facts:
    """Everything a rule may ask: the model, the machine, the rows, the adapters (None where one is elsewhere), and the
    input pictures by name."""

    model: ModelFacts
    devices: DeviceFacts
    rows: tuple[Row, ...]
    model_is_local: bool = False
    adapters: tuple[AdapterFacts | None, ...] = ()
    pictures: Mapping[str, Picture] = field(default_factory=dict)


def _unknown(
    code: str, what: str, name: str, known: tuple[str, ...], path: tuple[str | int, ...], hint: str
) -> Diagnostic:
    only = meant(name, known) or of_some_owner(name, known)
    parts = () if only else with_parts(name, known)
    near = only or (parts[0] if len(parts) == 1 else None if parts else nearest(name, known))
    if near is not None:
        hint = f"did you mean `{near}`? {hint}"
    elif parts:
        hint = f"say which: {', '.join(f'`{one}`' for one in parts[:MOST_SHOWN])}; {hint}"
    return Diagnostic(code, Severity.ERROR, f"`{name}` is not a known {what}", hint, path, fix=only)


def _model(recipe: Recipe, root: Path) -> tuple[ModelFacts | None, list[Diagnostic]]:
    """The model's facts: those of `like`, else of the folder or file, else of the id."""
    model = recipe.model
    if model.like is not None:
        return _named(model.like, root, ("model", "like"), "`like` names a model of `dcompile models`")
    if model.path is not None:
        try:
            return facts_of_path(root / model.path, model.variant), []
        except FactsError as error:
            if not has_path(root, model.path) and model.path in registry.known_models():
                error = FactsError(error.message, f"`{model.path}` is the id of a known model: write it under `id`")
            return None, [_unusable(error, ("model", "path"))]
    name = model.id or ""
    if name not in registry.known_models() and find(name, root) is None:
        snapshot = snapshot_of(name, model.revision)
        if snapshot is not None:
            try:
                return replace(facts_of_path(snapshot, model.variant), id=name), []
            except FactsError as error:
                return None, [_unusable(error, ("model", "id"))]
    if has_path(root, name):
        return _named(name, root, ("model", "id"), f"`{name}` lies beside the recipe: write it under `path`")
    if kept := revisions_of(name):
        here, wanted = " and ".join(f"`{one}`" for one in kept[:MOST_SHOWN]), model.revision or "main"
        return _named(name, root, ("model", "id"), f"the hub's cache has {here} of it, not `{wanted}`: download that")
    return _named(name, root, ("model", "id"), _HOW_TO_ADD)


def has_path(root: Path, name: str) -> bool:
    """Whether a relative or absolute path leads to something; not where it is none at all."""
    try:
        return (root / name).exists()
    except (OSError, ValueError):  # longer than a path can be, or with a character that none can have
        return False


def facts_of_path(path: Path, variant: str | None = None) -> ModelFacts:
    """The facts of a pipeline's folder or of a single file of weights.

    Raises:
        FactsError: where it cannot be read, or a file is none of the known models.
    """
    try:
        if path.suffix == ".safetensors" and not path.is_dir():
            return facts_of_file(path)
        return facts_of_folder(path, variant)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise FactsError(f"`{path}` cannot be read: {reason}", "check the path and its permissions") from None


def _named(name: str, root: Path, path: tuple[str | int, ...], hint: str) -> tuple[ModelFacts | None, list[Diagnostic]]:
    """The facts of an id that this package or a facts file beside the recipe knows."""
    known = registry.known_models()
    if name in known:
        return registry.load_model(name), []
    file = find(name, root)
    if file is None:
        return None, [_unknown("DC301", "model", name, (*known, *known_here(root)), path, hint)]
    from dcompile.facts.facts_file import read_facts

    try:
        return read_facts(file), []
    except FactsError as error:
        return None, [_unusable(error, path, "DC312")]


def _unusable(error: FactsError, path: tuple[str | int, ...], code: str = "DC303") -> Diagnostic:
    code = BROKEN_WEIGHTS if isinstance(error, WeightsError) else code
    return Diagnostic(code, Severity.ERROR, error.message, error.hint, path)


def _of_recipe(section: Devices, memory: tuple[str, ...]) -> HardwareFacts:
    """A device that is in no table."""
    kind = section.kind or "cpu"
    size = parse_bytes(memory[0]) if memory[0] else 0
    return HardwareFacts(kind, kind, size, 0.0, 0.0, section.link or "host", 0.0, "the recipe")


def _devices(recipe: Recipe) -> tuple[DeviceFacts | None, list[Diagnostic]]:
    section = recipe.devices if isinstance(recipe.devices, Devices) else Devices()
    names = section.gpus or ((section.gpu,) if section.gpu is not None else ())
    known = registry.known_hardware()
    unknown_names = (
        _unknown(
            "DC302",
            "device",
            name,
            known,
            ("devices", "gpus", index) if section.gpus else ("devices", "gpu"),
            "`dcompile hardware` lists them",
        )
        for index, name in enumerate(names)
        if name not in known
    )
    if found := [*bounded(unknown_names), *link_faults(section)]:
        return None, found
    is_list = isinstance(section.memory, tuple)
    memory: tuple[str, ...] = section.memory if isinstance(section.memory, tuple) else (section.memory or "",)
    node = tuple(registry.load_hardware(name) for name in names) or (_of_recipe(section, memory),)
    if is_list and len(node) == 1:
        node *= len(memory)
    elif not is_list:
        memory *= len(node)
    if section.memory is not None:
        for index, (size, has) in enumerate(zip(memory, node, strict=False)):
            if names and parse_bytes(size) > has.memory_bytes:
                message = f"{size} is more than a {has.name} has ({format_bytes(has.memory_bytes)})"
                path: tuple[str | int, ...] = ("devices", "memory", index) if is_list else ("devices", "memory")
                hint = "leave `memory` out, or name the right device"
                return None, [Diagnostic("DC307", Severity.ERROR, message, hint, path)]
        # Where the lists differ in length there is no such box: DC407.
        node = tuple(replace(has, memory_bytes=parse_bytes(size)) for has, size in zip(node, memory, strict=False))
        if is_list and not names:
            node = tuple(replace(has, name=f"{has.kind} of {size}") for has, size in zip(node, memory, strict=True))
    if section.link is not None:
        node = tuple(replace(device, link=section.link) for device in node)
    node, curves = _measured(node, section.measured)
    named = section.gpus or (memory if is_list else section.ids)
    per_node = section.per_node or (len(named) if named else None)
    kind: str = section.kind or node[0].kind
    if per_node is None and kind != "cpu":
        per_node = 1
    # The CUDA context, NCCL's buffers and the allocator's slack: about 0.5 GiB of context on an H100; buffers of 342 to
    # 392 MiB (AIConfigurator's table); 0.15 GiB beside torch on one card, 0.6 under `tensor` (llm-d-planner).
    reserve = parse_bytes(section.reserve) if section.reserve else 0 if kind == "cpu" else 2**30
    has_memory = bool(names or section.memory)
    return DeviceFacts(kind, node, per_node, section.nodes, reserve, has_memory, section.node_link, curves), []


def _measured(
    node: tuple[HardwareFacts, ...], given: Measured | None
) -> tuple[tuple[HardwareFacts, ...], MeasuredCurves]:
    """The devices of a node with the speeds that were measured, and the curves of its collectives."""
    if given is None:
        return node, {}
    if given.speeds:
        speeds = [MeasuredSpeed(given.dtype, **speed.model_dump()) for speed in given.speeds]
        count = max(len(node), len(speeds))
        node = tuple(replace(node[i % len(node)], measured=speeds[i % len(speeds)]) for i in range(count))
    curves: MeasuredCurves = {}
    for one in given.collectives:
        points = curves.setdefault(one.operation, {})
        points[one.ranks] = tuple(sorted((*points.get(one.ranks, ()), (one.bytes, float(one.seconds)))))
    return node, curves


def resolve(recipe: Recipe, root: Path) -> tuple[Facts | None, tuple[Diagnostic, ...]]:
    """Look up the model, the devices and the prompts that a recipe names.

    Args:
        root: the recipe's folder; relative paths start there.

    Emits: DC301 unknown model, DC302 unknown device or link, DC303 unusable folder or file, DC305 prompts,
        DC307 too much memory, DC312 unusable facts file, DC316 missing or broken weights, DC360 unusable pictures,
        DC363 a pipeline class that does not fit, DC364 a task that no class does.
    """
    model, found = _model(recipe, root)
    if model is not None and (recipe.model.pipeline is not None or recipe.run.task is not None):
        from dcompile.facts.asked_pipeline import as_asked  # few recipes need it

        model, found = as_asked(recipe, model)
    devices, device_faults = _devices(recipe)
    rows, row_faults = read_rows(recipe, root)
    pictures: Mapping[str, Picture] = {}
    if recipe.run.images is not None or any(row.images is not None for row in rows):
        from dcompile.facts.pictures import read_pictures

        pictures, more = read_pictures(recipe, rows, root)
        row_faults += more
    diagnostics = (*found, *device_faults, *row_faults)
    if model is None or devices is None or has_errors(diagnostics):
        return None, diagnostics
    named = {*model.components, *DENOISERS}
    adapters = tuple(adapter_facts(root / adapter.path, named) for adapter in recipe.model.adapters)
    is_local = recipe.model.path is not None and recipe.model.like is None
    return Facts(model, devices, rows, is_local, adapters, pictures), diagnostics
