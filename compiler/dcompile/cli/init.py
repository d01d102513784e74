"""A recipe for this machine: looks at its devices, takes the model's own defaults."""

from __future__ import annotations

import difflib
import importlib.util

from dcompile.core.units import GIB, format_bytes
from dcompile.facts import registry

TEXT = """# {purpose}
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
  seed: 42
output:
  dir: out
"""


def devices_here() -> tuple[str, int, int]:
    """Kind, number and memory (bytes of the smallest) of this machine's accelerators; `cpu` where there is none."""
    if importlib.util.find_spec("torch") is not None:
        import torch

        if torch.cuda.is_available():
            count = torch.cuda.device_count()
            return "cuda", count, min(torch.cuda.get_device_properties(i).total_memory for i in range(count))
        if torch.xpu.is_available():
            count = torch.xpu.device_count()
            return "xpu", count, min(torch.xpu.get_device_properties(i).total_memory for i in range(count))
    return "cpu", 1, 0


def recipe_text(model_id: str) -> tuple[str, str, str]:
    """The recipe, a sentence about what was chosen, and the problem where there is one."""
    known = registry.known_models()
    if model_id not in known:
        close = difflib.get_close_matches(model_id, known, n=1)
        hint = f"did you mean `{close[0]}`?" if close else "`dcompile models` lists them"
        return "", "", f"`{model_id}` is not a known model; {hint}"
    facts = registry.load_model(model_id)
    kind, count, memory_bytes = devices_here()
    dtype = "float32" if kind == "cpu" else "bfloat16"
    if kind == "cpu":
        devices, machine = "  kind: cpu", "no accelerator, so it runs on the CPU"
    else:
        devices = f"  kind: {kind}\n  per_node: 1\n  memory: {memory_bytes // GIB}GiB"
        machine = f"{count} {kind} device(s) of {format_bytes(memory_bytes)}; it uses one"
    frames = facts.defaults.get("frames") if facts.tokens.get("frames") else None
    text = TEXT.format(
        purpose=f"{model_id} with its own defaults",
        file="this file",
        model=model_id,
        dtype=dtype,
        devices=devices,
        height=facts.defaults.get("height") or 1024,
        width=facts.defaults.get("width") or 1024,
        steps=facts.defaults.get("steps") or 28,
        frames=f"  frames: {frames}\n" if frames else "",
    )
    return text, f"this machine has {machine}; size and steps are the model's own defaults", ""
