"""Streaming load: a model is built on the meta device, and each rank reads only what it keeps.

Peak anonymous memory is the rank's shard and one tensor; the mapped pages of the files are cache.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from accelerate import init_empty_weights
from safetensors import safe_open
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from dcompile.runtime import library, tensor_parallel
from dcompile.runtime.errors import RunError

_STEM = "diffusion_pytorch_model"


def weight_files(folder: Path, variant: str | None = None) -> dict[str, Path]:
    """`{tensor name: file}` of a diffusers component's folder, one file or many with an index."""
    suffix = f".{variant}" if variant else ""
    index = folder / f"{_STEM}.safetensors.index{suffix}.json"
    if index.is_file():
        table = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        missing = sorted({file for file in table.values() if not (folder / file).is_file()})
        if missing:
            raise RunError(f"the weight file `{folder / missing[0]}` is missing")
        return {name: folder / file for name, file in table.items()}
    file = folder / f"{_STEM}{suffix}.safetensors"
    if not file.is_file():
        raise RunError(f"the weight file `{file}` is missing")
    with opened(file) as tensors:
        return dict.fromkeys(tensors.keys(), file)


def opened(file: Path) -> Any:
    """A safetensors file, mapped; a broken one is an error that names it."""
    try:
        return safe_open(file, framework="pt", device="cpu")
    except Exception as error:
        raise RunError(f"the weight file `{file}` is broken: {error}") from error


def load_streaming(
    model_class: Any,
    folder: Path,
    dtype: torch.dtype,
    layout: dict[str, Any],
    mesh: DeviceMesh,
    device: torch.device,
    variant: str | None = None,
) -> nn.Module:
    """A tensor-parallel diffusers model of which this rank holds its slices only."""
    model = _empty(model_class, folder, dtype)
    split = tensor_parallel.expand(layout["parameters"], (name for name, _ in model.named_parameters()))
    whole = tensor_parallel.whole_parameters(model, layout)
    tensors: dict[str, tuple[nn.Module, str, torch.Tensor]] = {}
    for prefix, module in model.named_modules():
        for leaf, tensor in [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]:
            if leaf not in module._non_persistent_buffers_set:
                tensors[f"{prefix}.{leaf}" if prefix else leaf] = (module, leaf, tensor)
    files = weight_files(folder, variant)
    missing = sorted(tensors.keys() - files.keys())
    if missing:
        raise RunError(f"the checkpoint in `{folder}` has no tensor `{missing[0]}`")
    for file in sorted(set(files.values())):
        with opened(file) as stored:
            for name in [name for name, place in files.items() if place == file and name in tensors]:
                module, leaf, tensor = tensors[name]
                piece = _read(stored, name, tensor.shape, split.get(name), mesh)
                local = torch.empty(piece.shape, dtype=_dtype(model_class, name, piece, dtype), device=device)
                local.copy_(piece)
                if leaf in module._buffers:
                    module._buffers[leaf] = local
                elif name in split or name in whole:
                    dim = split[name]["dim"] if name in split else None
                    module.register_parameter(leaf, tensor_parallel.placed(local, mesh, dim))
                else:
                    module.register_parameter(leaf, nn.Parameter(local, requires_grad=False))
    for module in model.modules():
        for leaf in module._non_persistent_buffers_set:
            buffer = module._buffers[leaf]
            module._buffers[leaf] = None if buffer is None else buffer.to(device)
    tensor_parallel.apply_hooks(model, layout, mesh)
    return model.eval()


def _empty(model_class: Any, folder: Path, dtype: torch.dtype) -> Any:
    """The model with parameters on meta and real buffers, as `from_pretrained` builds it."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with init_empty_weights(include_buffers=False):
            model = model_class.from_config(model_class.load_config(folder))
    finally:
        torch.set_default_dtype(default)
    model.register_to_config(_name_or_path=str(folder))
    return model


def _dtype(model_class: Any, name: str, stored: torch.Tensor, dtype: torch.dtype) -> torch.dtype:
    """What a tensor becomes: the component's dtype, except where its class keeps it in float32."""
    if not stored.is_floating_point():
        return stored.dtype
    kept = library.kept_in_float32(model_class)
    atoms = name.split(".")
    return torch.float32 if any(module in atoms for module in kept) else dtype


def _read(stored: Any, name: str, shape: torch.Size, spec: dict[str, Any] | None, mesh: DeviceMesh) -> torch.Tensor:
    view = stored.get_slice(name)
    found = tuple(view.get_shape())
    if found != tuple(shape):
        raise RunError(f"the tensor `{name}` has the shape {found} in its file, and the model wants {tuple(shape)}")
    if spec is None:
        return stored.get_tensor(name)
    return tensor_parallel.local_shard(view, spec["dim"], spec["parts"], mesh.get_local_rank(), mesh.size())
