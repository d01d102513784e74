"""A recipe for this machine: looks at its devices, takes the model's own defaults."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dcompile.core.meant import nearest, of_some_owner
from dcompile.core.units import GIB, format_bytes
from dcompile.facts import registry
from dcompile.facts.guidance import guidance_of
from dcompile.facts.types import ModelFacts

TEXT = """{modeline}# {purpose}
# dcompile run {file}
version: 1
model:
  id: {model}
  dtype: {dtype}
devices:
{devices}
run:
  prompts: ["a red fox in the snow"]
  height: {height}
  width: {width}
{frames}  steps: {steps}
{guidance}  seed: 42
output:
  dir: out
"""


SCHEMA_FILES = ("recipe.schema.json", "schemas/recipe.schema.json")
_LARGEST_SCHEMA = 2**20


def schema_beside(folder: Path) -> str | None:
    """The recipes' schema in a folder or one above it, as a recipe in the folder would name it; None without one.

    An address on the network is not written: none is promised to be there.
    """
    here = folder.resolve()
    for above in (here, *here.parents):
        for name in SCHEMA_FILES:
            relative = os.path.relpath(above / name, here).replace(os.sep, "/")
            if _is_schema(above / name) and not any(letter.isspace() for letter in relative):
                return relative
    return None


def _is_schema(file: Path) -> bool:
    try:
        if not file.is_file() or file.stat().st_size > _LARGEST_SCHEMA:
            return False
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and found.get("title") == "dcompile recipe"


def devices_here() -> tuple[str, int, int]:
    """Kind, number and memory (bytes of the smallest) of this machine's accelerators; `cpu` where there is none."""
    from dcompile.machine.devices import look

    machine = look()
    return machine.kind, len(machine.devices), machine.smallest_bytes


def recipe_text(model_id: str, folder: Path) -> tuple[str, str, str]:
    """The recipe, a sentence about what was chosen, and the problem where there is one.

    Args:
        model_id: a known hub id.
        folder: where the recipe will lie; an editor finds the schema from there.
    """
    known = registry.known_models()
    if model_id not in known:
        near = of_some_owner(model_id, known) or nearest(model_id, known)
        hint = f"did you mean `{near}`?" if near else "`dcompile models` lists them"
        if Path(model_id).is_dir():
            hint = "a folder is named in a recipe: `model: {path: ...}`"
        return "", "", f"`{model_id}` is not a known model; {hint}"
    facts = registry.load_model(model_id)
    if facts.pictures:
        needs = f"{facts.pipeline} needs {' and '.join(f'`{name}`' for name in facts.pictures)}"
        is_picture = facts.pictures == ("image",)
        return "", "", f"{needs}: {'name it as `images` of `run`' if is_picture else 'recipes cannot give that yet'}"
    kind, count, memory_bytes = devices_here()
    dtype = "float32" if kind == "cpu" else "bfloat16"
    if kind == "cpu":
        devices, machine = "  kind: cpu", "no accelerator, so it runs on the CPU"
    else:
        devices = f"  kind: {kind}\n  per_node: 1\n  memory: {memory_bytes // GIB}GiB"
        machine = f"{count} {kind} device(s) of {format_bytes(memory_bytes)}; it uses one"
    usual = {**facts.defaults, **facts.advised}
    frames = usual.get("frames") if facts.tokens.get("frames") else None
    schema = schema_beside(folder)
    text = TEXT.format(
        modeline=f"# yaml-language-server: $schema={schema}\n" if schema else "",
        purpose=f"{model_id} with the settings that it is published with",
        file="this file",
        model=model_id,
        dtype=dtype,
        devices=devices,
        height=usual.get("height") or 1024,
        width=usual.get("width") or 1024,
        steps=usual.get("steps") or 28,
        guidance=_guidance_lines(facts, usual),
        frames=f"  frames: {frames}\n" if frames else "",
    )
    said = f"this machine has {machine}; size, steps and guidance are those that the model is published with"
    if not schema:
        said += "\n  for completion in an editor: dcompile schema > recipe.schema.json beside it, and as its first line"
        said += "\n  # yaml-language-server: $schema=recipe.schema.json"
    return text, said, ""


def _guidance_lines(facts: ModelFacts, usual: Mapping[str, Any]) -> str:
    """The keys of `run` for the guidance that a model is published with; none where it takes no guidance."""
    guidance = guidance_of(facts)
    lines = ""
    if usual.get("guidance") is not None and not (guidance.ignores_guidance and usual["guidance"] > 0):
        lines += f"  guidance: {usual['guidance']:g}\n"
    if guidance.branches == "true_cfg_scale" and (usual.get("true_cfg") or 0) > guidance.above:
        lines += f"  true_cfg: {usual['true_cfg']:g}\n"
    if "guidance_scale_2" in facts.advised:
        lines += f"  args: {{guidance_scale_2: {facts.advised['guidance_scale_2']:g}}}\n"
    return lines
