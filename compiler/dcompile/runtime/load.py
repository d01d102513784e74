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

from dcompile.runtime import context_parallel, device_map, tensor_parallel, weights
from dcompile.runtime.errors import RunError
from dcompile.runtime.ranks import Ranks, join


def load_pipeline(plan: dict[str, Any], root: Path, ranks: Ranks | None = None) -> Any:
    """The plan's pipeline, split and placed, on this rank.

    Args:
        plan: the content of `plan.json`.
        root: the recipe's folder, where relative model paths start.
        ranks: this process's place; joins the job that the environment names where it is not given.

    Raises:
        RunError: with one sentence, where a weight file is missing or broken or the machine is not the plan's.
    """
    program = plan["program"]
    ranks = ranks or join(program)
    source = _source(program["pipeline"], root, ranks)
    has_adapters = bool(program["pipeline"]["adapters"])
    streamed = {} if source.is_file() or has_adapters else _stream(program, source, root, ranks)
    pipeline = _assemble(program, source, root, streamed)
    _override_scheduler(pipeline, program["pipeline"]["scheduler"])
    _load_adapters(pipeline, program, root)
    for name, component in program["components"].items():
        if component["tensor"] and name not in streamed:
            mesh = _mesh(ranks)["tensor"]
            tensor_parallel.shard_in_memory(getattr(pipeline, name), component["tensor"], mesh, ranks.device)
    device_map.place(pipeline, program, ranks.devices)
    for name, component in program["components"].items():
        if component["context"]:
            context_parallel.apply(getattr(pipeline, name), component["context"], _mesh(ranks), ranks.device)
        if component["tiling"]:
            getattr(pipeline, name).enable_tiling()
    for name, component in program["components"].items():
        if component["attention"]:
            getattr(pipeline, name).set_attention_backend(component["attention"])
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def _mesh(ranks: Ranks) -> Any:
    if ranks.mesh is None:
        raise RunError("the plan splits a component, but has one rank")
    return ranks.mesh


def _source(pipeline: dict[str, Any], root: Path, ranks: Ranks) -> Path:
    """The pipeline's folder, or a single file of weights; a hub id is downloaded once a node."""
    if pipeline["path"] is not None:
        source = root / pipeline["path"]
        if not source.exists():
            raise RunError(f"the model `{source}` does not exist")
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


def _stream(program: dict[str, Any], source: Path, root: Path, ranks: Ranks) -> dict[str, nn.Module]:
    """The tensor-parallel diffusers components, each rank reading its own slices."""
    streamed = {}
    for name, component in program["components"].items():
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
    return streamed


def _assemble(program: dict[str, Any], source: Path, root: Path, given: dict[str, nn.Module]) -> Any:
    """The pipeline on the CPU, each component at its dtype, around the components that are there already."""
    settings = program["pipeline"]
    parts: dict[str, Any] = dict(given)
    dtypes = {"default": _dtype(settings["dtype"])}
    for name, component in program["components"].items():
        if component["omit"]:
            parts[name] = None
        elif component["dtype"]:
            dtypes[name] = _dtype(component["dtype"])
        if name not in parts and (component["id"] or component["path"]):
            place = component["id"] or root / component["path"]
            parts[name] = _model_class(component).from_pretrained(place, dtype=dtypes.get(name))
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


def _load_adapters(pipeline: Any, program: dict[str, Any], root: Path) -> None:
    """LoRA weights go in before anything is split; under tensor parallelism they are fused into whole weights."""
    adapters = program["pipeline"]["adapters"]
    if not adapters:
        return
    names = [f"adapter_{index}" for index in range(len(adapters))]
    for name, adapter in zip(names, adapters, strict=True):
        path = root / adapter["path"]
        if path.is_file():
            pipeline.load_lora_weights(path.parent, weight_name=path.name, adapter_name=name)
        else:
            pipeline.load_lora_weights(path if path.exists() else adapter["path"], adapter_name=name)
    pipeline.set_adapters(names, [1.0 if adapter["weight"] is None else adapter["weight"] for adapter in adapters])
    split = any(component["tensor"] for component in program["components"].values())
    if split or any(adapter["fuse"] for adapter in adapters):
        pipeline.fuse_lora(adapter_names=names)
        pipeline.unload_lora_weights()
