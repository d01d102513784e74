"""What one denoising step moves between ranks, or between the devices of one, from shapes alone.

Tensor parallel: one all-reduce of the tokens it computes for every rowwise layer, tokens x width elements each.
Ulysses: per attention layer four all-to-alls (query, key, value, output) of a rank's share.
Ring: per attention layer an all-gather of key and value, of the heads that Ulysses leaves a rank.
Both: one all-gather of the output; Helios gathers after both attentions and the MLP of every block.
Source: diffusers 0.42.1, `attention_dispatch.py`; FLUX.1-dev at tensor 8 has 114 all-reduces of a step (2052 MiB),
measured with a fake process group.
Between the devices of a process: the sequence, each time the next block lies elsewhere, and back at the end, as
`runtime/at_home.py` does it. What every block is given besides (the time, rotary tables) goes to each device once a
step; it is at most a sixth of the sequence and is not counted, nor what goes to and from a denoiser that lies whole on
another device than the pipeline works on.
"""

from __future__ import annotations

from itertools import pairwise

from dcompile.estimate.work import Tokens, denoiser_work
from dcompile.facts.registry import tail_of
from dcompile.facts.resolve import Facts
from dcompile.layout.placement import Placement
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


def step_transfers(recipe: Recipe, facts: Facts, splits: Splits, placement: Placement, settings: Settings) -> Traffic:
    """What the devices of one rank hand on, for one call of a denoiser that is cut between its blocks; else nothing."""
    model = facts.model
    name = model.denoisers[0]
    component, places = model.components[name], placement.blocks_of.get(name)
    if places is None:
        return {}
    first = placement.device_of[name]
    blocks = [places[f"{stack}.{index}"] for stack, count in component.blocks for index in range(count)]
    tail = [places[part] for part in tail_of(component.class_name) if part in places]
    onward = sum(a != b for a, b in pairwise([first, *blocks]))
    # What a tail makes of the sequence is as good as nothing beside it, wherever it goes then.
    back = blocks[-1] != (tail[0] if tail else first)
    pixels, text = settings.sequence_tokens, settings.text_tokens
    work = denoiser_work(component, Tokens(pixels, text, pixels, text))
    width = work.residual_elements / max(1, work.blocks) / max(1, pixels + text)
    size = dtype_bytes(component_dtype(recipe, name, facts.devices.kind)) * settings.batch * width
    if not onward + back:
        return {}
    return {"transfer": {"calls": onward + back, "bytes": round(size * (onward * (pixels + text) + back * pixels))}}
