"""What one denoising step moves between ranks, from shapes alone.

Tensor parallel: one all-reduce of the tokens it computes for every rowwise layer, tokens x width elements each.
Ulysses: per attention layer four all-to-alls (query, key, value, output) of a rank's share.
Ring: per attention layer an all-gather of key and value, of the heads that Ulysses leaves a rank.
Both: one all-gather of the output; Helios gathers after both attentions and the MLP of every block.
Source: diffusers 0.42.1, `attention_dispatch.py`; FLUX.1-dev at tensor 8 has 114 all-reduces of a step (2052 MiB),
measured with a fake process group.
"""

from __future__ import annotations

from dcompile.facts.resolve import Facts
from dcompile.layout.settings import Settings, component_dtype
from dcompile.layout.shard import dtype_bytes
from dcompile.layout.splits import Splits
from dcompile.recipe.model import Recipe

Traffic = dict[str, dict[str, int]]
"""`calls` and `bytes` (of all calls) of each collective."""


def step_traffic(recipe: Recipe, facts: Facts, splits: Splits, settings: Settings) -> Traffic:
    """Calls and bytes of each collective, for one rank and one call of the denoiser."""
    traffic: Traffic = {}
    model = facts.model
    pixels = settings.sequence_tokens
    name = model.denoisers[0]
    split, component = splits.components[name], model.components[name]
    size = dtype_bytes(component_dtype(recipe, name, facts.devices.kind))
    head_width = component.config.get("attention_head_dim")
    width = (component.heads or 0) * (head_width if isinstance(head_width, int) else 0)
    blocks = sum(count for _, count in component.blocks)
    text = settings.text_tokens

    def add(collective: str, calls: int, elements: int) -> None:
        entry = traffic.setdefault(collective, {"calls": 0, "bytes": 0})
        entry["calls"] += calls
        entry["bytes"] += elements * size * settings.batch

    if split.tensor > 1:
        for style in component.tensor_plan:
            if not style.style.endswith("rowwise"):
                continue
            stack = style.module.partition(".*")[0]
            calls = dict(component.blocks).get(stack, 1)
            single = stack.startswith("single_")
            on_text = any(part in style.module for part in ("context", "add_out", "txt_"))
            tokens = pixels + text if single else text if on_text else pixels
            add("all_reduce", calls, calls * tokens * width)
    if split.context > 1:
        local = -(-(pixels + (text if component.context_splits_text else 0)) // split.context)
        if split.ulysses > 1:
            add("all_to_all", 4 * blocks, 4 * blocks * local * width)
        if split.ring > 1:
            add("all_gather", blocks, 2 * blocks * local * width * split.ring)
        if component.class_name == "HeliosTransformer3DModel":  # split for the layers of a block alone
            add("all_gather", 3 * blocks, blocks * (2 * pixels + settings.sequences[-1]) * width)
        else:
            out = int(component.config.get("out_channels") or component.config.get("in_channels") or 0)
            add("all_gather", 1, pixels * out)
    return traffic
