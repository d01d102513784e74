"""What was meant by a key that the recipe does not have."""

from __future__ import annotations

from dcompile.core.diagnostics import Diagnostic, Move, Path, dotted
from dcompile.core.meant import meant
from dcompile.recipe.faults import fault
from dcompile.recipe.model import Component, ComponentParallel
from dcompile.recipe.sections import fields, homes, section_at, show_pattern

ALIASES: dict[str, str] = {
    "num_inference_steps": "run.steps",
    "inference_steps": "run.steps",
    "guidance_scale": "run.guidance",
    "cfg_scale": "run.true_cfg",
    "true_cfg_scale": "run.true_cfg",
    "num_frames": "run.frames",
    "num_images_per_prompt": "run.images_per_prompt",
    "num_videos_per_prompt": "run.images_per_prompt",
    "prompt": "run.prompts",
    "image": "run.images",
    "generator": "run.seed",
    "manual_seed": "run.seed",
    "batch_size": "run.batch",
    "size": "run.height",
    "torch_dtype": "model.dtype",
    "data_type": "model.dtype",
    "precision": "model.dtype",
    "mixed_precision": "model.dtype",
    "pretrained_model_name_or_path": "model.id",
    "model_id": "model.id",
    "repo_id": "model.id",
    "model_path": "model.path",
    "pipeline_class": "model.pipeline",
    "lora": "model.adapters",
    "loras": "model.adapters",
    "ulysses_degree": "parallel.context.ulysses",
    "ring_degree": "parallel.context.ring",
    "context_parallel": "parallel.context",
    "sp": "parallel.context",
    "sequence_parallel": "parallel.context",
    "tp": "parallel.tensor",
    "tp_degree": "parallel.tensor",
    "tensor_parallel": "parallel.tensor",
    "tensor_parallel_size": "parallel.tensor",
    "tensor_parallel_degree": "parallel.tensor",
    "dp": "parallel.data",
    "dp_degree": "parallel.data",
    "data_parallel": "parallel.data",
    "data_parallel_degree": "parallel.data",
    "replicas": "parallel.data",
    "cfg_parallel": "parallel.cfg",
    "use_cfg_parallel": "parallel.cfg",
    "fsdp": "parallel.shard",
    "gpu_count": "devices.per_node",
    "num_gpus": "devices.per_node",
    "n_gpus": "devices.per_node",
    "nproc_per_node": "devices.per_node",
    "num_processes": "devices.per_node",
    "nnodes": "devices.nodes",
    "num_nodes": "devices.nodes",
    "num_machines": "devices.nodes",
    "vram": "devices.memory",
    "output_dir": "output.dir",
    "attention_backend": "components.<component>.attention",
    "attn_backend": "components.<component>.attention",
    "quantization": "components.<component>.quantize",
    "quantization_config": "components.<component>.quantize",
    "enable_tiling": "components.<component>.tiling",
    "vae_tiling": "components.vae.tiling",
    "torch_compile": "components.<component>.compile",
}


_OTHER_VALUES = {"size", "image", "prompt", "generator", "precision", "mixed_precision", "num_processes", "data_type"}
_OTHER_VALUES |= {
    "lora",
    "loras",
    "fsdp",
    "context_parallel",
    "sp",
    "sequence_parallel",
    "use_cfg_parallel",
    "cfg_parallel",
}
_OTHER_VALUES |= {"quantization", "quantization_config", "torch_compile", "vram"}
"""Aliases whose values are written otherwise in a recipe, so that a new name alone does not mend them."""


def unknown_key(path: Path, section: object = None, *, search: bool = True) -> Diagnostic:
    """The diagnostic for a key that its section does not have, with what was meant.

    Args:
        path: the key's path.
        section: the mapping that the key stands in; a key that is there already is not proposed as the one right edit.
        search: whether to look for near names, which takes time.
    """
    above, key = path[:-1], str(path[-1])
    place = f"`{dotted(above)}`" if above else "a recipe"
    if home := _moved(above, key):
        message = f"`{key}` does not belong under {place}: it moved to `{dotted(home)}`"
        return fault("DC207", message, f"write `{dotted(home)}`", path, is_key=True, fix=Move(home))
    hint, right = _meant(above, key) if search else ("", None)
    if key in _OTHER_VALUES or (isinstance(section, dict) and right in section):
        right = None
    return fault("DC201", f"{place} has no key `{_clip(key)}`", hint, path, is_key=True, fix=right)


def _clip(key: str) -> str:
    return key if len(key) <= 60 else key[:57] + "..."


def _moved(section: Path, key: str) -> Path:
    """Where a key lies that was written under the other `components`; nothing where it was not."""
    if len(section) == 2 and section[0] == "components" and key in fields(ComponentParallel):
        return ("parallel", "components", section[1], key)
    if len(section) == 3 and section[:2] == ("parallel", "components") and key in fields(Component):
        return ("components", section[2], key)
    return ()


def _meant(section: Path, key: str) -> tuple[str, str | Move | None]:
    """The hint, and where only one can be meant the key of this section, or the place in another one."""
    import difflib

    kind = section_at(section)
    own = fields(kind) if kind is not None else ()
    plain = key.strip().lower().replace("-", "_").replace(" ", "_")
    if plain in own:
        return f"write `{plain}`", plain
    if plain not in ALIASES and (slip := meant(plain, own)) is not None:
        return f"did you mean `{slip}`?", slip
    near = difflib.get_close_matches(plain, own, 2, 0.84)
    if not near and (target := ALIASES.get(plain)) is not None:
        same = target.rpartition(".")[0] == dotted(section)
        return _say(section, target), target.rpartition(".")[2] if same else _elsewhere(target)
    if not near and (found := homes(plain)) and plain not in ("class", "type", "components", "path", "id", "name"):
        component = str(section[-1]) if "components" in section else "<component>"
        home = f"under `{show_pattern(found[0], component)}`" if found[0] else "at the top level"
        only = len(found) == 1 and "*" not in found[0]
        return f"it belongs {home}", Move((*found[0], plain)) if only else None
    close = difflib.get_close_matches(plain, own, 2, 0.6)
    if near or close:
        only = len(near) == 1 or len(close) == 1
        return f"did you mean `{(near or close)[0]}`?", (near or close)[0] if only else None
    known = {name for name in ALIASES if len(name) > 3}
    if other := difflib.get_close_matches(plain, known, 1, 0.85):
        return _say(section, ALIASES[other[0]]), None
    return (f"known keys: {', '.join(own)}" if own else ""), None


def _elsewhere(target: str) -> Move | None:
    return None if "<" in target else Move(tuple(target.split(".")))


def _say(section: Path, target: str) -> str:
    home, _, name = target.rpartition(".")
    return f"did you mean `{name}`?" if home == dotted(section) else f"in a recipe this is `{target}`"
