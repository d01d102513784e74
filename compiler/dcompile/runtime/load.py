"""Builds the sharded pipeline of a plan, in the order that the libraries need (`load_pipeline` reads top to bottom)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import diffusers
import torch
import torch.distributed as dist
import transformers
from diffusers import DiffusionPipeline
from torch import nn

from dcompile.runtime import (
    adapters,
    attention,
    context_parallel,
    device_map,
    library,
    offload,
    quantize,
    tensor_parallel,
    these_devices,
    weights,
)
from dcompile.runtime.errors import RunError
from dcompile.runtime.logical_devices import LogicalDevices, as_one_operation
from dcompile.runtime.offload import Guest
from dcompile.runtime.progress import Loading
from dcompile.runtime.ranks import Ranks, join, start_alone


def open_pipeline(plan: dict[str, Any], root: Path) -> Any:
    """The plan's pipeline for a script that calls it itself: joins the script's job, or starts a group of one process.

    Logical devices stay for the rest of the process: the script calls the pipeline when this function is long over.

    Raises:
        RunError: as `load_pipeline`, and as `these_devices.check`.
    """
    ranks = join(plan["program"])
    these_devices.check(plan, ranks.local_rank, says_notes=ranks.rank == 0)
    if ranks.world == 1 and not dist.is_initialized():
        start_alone(plan["program"]["device_kind"])
    if ranks.has_logical_devices:
        LogicalDevices().__enter__()
    held = sum(device["weight_bytes"] for device in plan["devices"] if device["rank"] == ranks.rank)
    with Loading("plain", held, is_speaker=ranks.rank == 0):
        return load_pipeline(plan, root, ranks)


def load_pipeline(plan: dict[str, Any], root: Path, ranks: Ranks) -> Any:
    """The plan's pipeline, split and placed, on this rank.

    Args:
        plan: the content of `plan.json`.
        root: the recipe's folder, where relative model paths start.
        ranks: this process's place.

    Raises:
        RunError: with one sentence, where a weight file is missing or broken or the machine is not the plan's.
    """
    program = plan["program"]
    attention.check_before_loading(program)
    source = _source(program["pipeline"], root, ranks)
    has_adapters = bool(program["pipeline"]["adapters"])
    guests: dict[str, Guest] = {}
    streamed = {} if source.is_file() or has_adapters else _stream(program, source, root, ranks, guests)
    pipeline = _assemble(program, source, root, streamed, ranks.devices)
    _override_scheduler(pipeline, program["pipeline"]["scheduler"])
    adapters.load(pipeline, program, root)
    for name, component in _present(program).items():
        if component["tensor"] and name not in streamed:
            mesh = _mesh(ranks)["tensor"]
            tensor_parallel.shard_in_memory(getattr(pipeline, name), component["tensor"], mesh, ranks.device)
            if component["offload"]:
                guests[name] = Guest(getattr(pipeline, name), ranks.device)
    if ranks.has_logical_devices:
        # The flex backend compiles itself, which the books of logical devices would stop: they look from outside.
        library.wrap_flex_attention(as_one_operation)
    home = device_map.place(pipeline, program, ranks.devices)
    for name, component in _present(program).items():
        if component["context"]:
            context_parallel.apply(getattr(pipeline, name), component["context"], _mesh(ranks), ranks.device)
        if component["tiling"]:
            getattr(pipeline, name).enable_tiling()
    attention.set_backends(pipeline, program)
    offload.apply(pipeline, program, ranks.devices, home, guests)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def _present(program: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The components that the plan does not leave out."""
    return {name: component for name, component in program["components"].items() if not component["omit"]}


def _mesh(ranks: Ranks) -> Any:
    if ranks.mesh is None:
        raise RunError("the plan splits a component, but has one rank")
    return ranks.mesh


def _source(pipeline: dict[str, Any], root: Path, ranks: Ranks) -> Path:
    """The pipeline's folder, or a single file of weights; a hub id is downloaded once a node."""
    if pipeline["path"] is not None:
        source = root / pipeline["path"]
        if not source.exists():
            why = "a relative path starts at the recipe's folder, which `run.py --root FOLDER` names"
            raise RunError(f"the model `{source}` does not exist: {why}")
        return Path(source)
    if ranks.local_rank != 0:
        dist.barrier(group=ranks.long_group)
    folder = DiffusionPipeline.download(
        pipeline["id"],
        revision=pipeline["revision"],
        variant=pipeline["variant"],
        trust_remote_code=pipeline["trust_remote_code"],
    )
    if ranks.local_rank == 0 and ranks.world > 1:
        dist.barrier(group=ranks.long_group)
    return Path(folder)


def _dtype(name: str) -> torch.dtype:
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise RunError(f"torch has no dtype `{name}`")
    return dtype


def _model_class(component: dict[str, Any]) -> Any:
    library = transformers if component["library"] == "transformers" else diffusers
    found = getattr(library, component["class"], None)
    if found is None:
        raise RunError(f"the {component['library']} that is installed has no class `{component['class']}`")
    return found


def _stream(
    program: dict[str, Any], source: Path, root: Path, ranks: Ranks, guests: dict[str, Guest]
) -> dict[str, nn.Module]:
    """The tensor-parallel diffusers components, each rank reading its own slices; the offloaded ones at rest."""
    streamed = {}
    for name, component in _present(program).items():
        if not component["tensor"] or component["library"] != "diffusers" or component["id"]:
            continue
        folder = root / component["path"] if component["path"] else source / name
        streamed[name] = weights.load_streaming(
            _model_class(component),
            folder,
            _dtype(component["dtype"]),
            component["tensor"],
            _mesh(ranks)["tensor"],
            ranks.device,
            program["pipeline"]["variant"],
        )
        if component["offload"]:  # at once, so that the slices of two are not on the device together
            guests[name] = Guest(streamed[name], ranks.device)
    return streamed


def _assemble(
    program: dict[str, Any], source: Path, root: Path, given: dict[str, nn.Module], devices: list[torch.device]
) -> Any:
    """The pipeline on the CPU, each component at its dtype, around the components that are there already."""
    settings = program["pipeline"]
    parts: dict[str, Any] = dict(given)
    dtypes = {"default": _dtype(settings["dtype"])}
    for name, component in program["components"].items():
        if component["omit"]:
            parts[name] = None
            continue
        if component["dtype"]:
            dtypes[name] = _dtype(component["dtype"])
        if name not in parts and (component["id"] or component["path"] or quantize.loads_on_device(component)):
            place = component["id"] or (root / component["path"] if component["path"] else source / name)
            variant = None if component["id"] or component["path"] else settings["variant"]
            parts[name] = quantize.load(_model_class(component), place, component, dtypes.get(name), variant, devices)
    pipeline_class = getattr(diffusers, settings["class"], None)
    if pipeline_class is None:
        raise RunError(f"the diffusers that is installed has no pipeline `{settings['class']}`")
    if source.is_file():
        return pipeline_class.from_single_file(source, dtype=dtypes["default"], **parts)
    _check_weights(source, parts, settings["variant"])
    return pipeline_class.from_pretrained(
        source,
        dtype=dtypes,
        variant=settings["variant"],
        trust_remote_code=settings["trust_remote_code"],
        quantization_config=quantize.pipeline_config(
            {name: component for name, component in _present(program).items() if name not in parts}
        ),
        **parts,
    )


def _check_weights(source: Path, given: dict[str, Any], variant: str | None) -> None:
    """Opens every weight file that is about to be read, so that a broken one is named and not guessed at."""
    for file in sorted(source.glob("*/*.safetensors")):
        if file.parent.name not in given:
            with weights.opened(file) as stored:
                stored.keys()


def _override_scheduler(pipeline: Any, scheduler: dict[str, Any] | None) -> None:
    if scheduler is None:
        return
    found = getattr(diffusers, scheduler["class"], None)
    if found is None:
        raise RunError(f"the diffusers that is installed has no scheduler `{scheduler['class']}`")
    settings = {key: value for key, value in scheduler.items() if key != "class"}
    pipeline.scheduler = found.from_config(pipeline.scheduler.config, **settings)
