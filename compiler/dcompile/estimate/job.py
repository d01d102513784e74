"""Seconds of the whole job: loading, encoding the prompts, the steps, decoding; of the replica with the most rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from dcompile.estimate.constants import Rates, constant, rates_of
from dcompile.estimate.offload import offload_seconds
from dcompile.estimate.step import StepSeconds, step_seconds
from dcompile.estimate.unpack import unpack_work
from dcompile.estimate.work import decode_flops, encoder_flops
from dcompile.facts.guidance import branch_calls
from dcompile.facts.prompts import Row
from dcompile.facts.resolve import Facts
from dcompile.layout.nodes import stands_for
from dcompile.layout.pictures import encoded_sizes
from dcompile.layout.placement import Placement
from dcompile.layout.settings import Settings, component_dtype, recipe_of_row, settings_of
from dcompile.layout.shard import count_weights, dtype_bytes
from dcompile.layout.splits import Splits
from dcompile.layout.stored import storage_of
from dcompile.recipe.model import Recipe

Estimate = dict[str, float | bool]


@dataclass(frozen=True)
class CallSeconds:
    """One call of the pipeline."""

    encode: float
    step: StepSeconds
    steps: int
    decode: float
    offload: float = 0.0

    @property
    def total(self) -> float:
        """Seconds of the call."""
        return self.encode + self.steps * self.step.total + self.decode + self.offload


def estimate(recipe: Recipe, facts: Facts, splits: Splits, placement: Placement, state: str = "eager") -> Estimate:
    """What a job is estimated to take, in seconds; empty where the hardware is not known.

    Args:
        recipe, facts, splits, placement: the job.
        state: `eager`, or `compiled` where the denoiser's blocks are compiled.

    Returns:
        `is_estimate`, `step_seconds` (one step of a call in the recipe's own shape, all branches) and of it
        `communication_seconds`, `total_seconds` (the whole job from its start), and what the latter is made of:
        `load_seconds` once, `encode_seconds` and `decode_seconds` for each call, and `offload_seconds` for each call
        where components are offloaded.
    """
    own = _call(recipe, facts, splits, placement, state)
    if own is None:
        return {}
    load = _load_seconds(recipe, facts, splits)
    seconds: dict[str, float] = {}
    keys = [_key(row) if row.args or row.images else "" for row in facts.rows]
    for key, row in zip(keys, facts.rows, strict=True):
        if key not in seconds:
            call = _call(recipe_of_row(recipe, row), facts, splits, placement, state) if row.args or row.images else own
            seconds[key] = (call or own).total
    rows = [seconds[key] for key in keys]
    mean = sum(rows) / len(rows) if rows else own.total
    calls = pipeline_calls(recipe, facts, splits.data)
    return {
        "is_estimate": True,
        "step_seconds": own.step.total,
        "communication_seconds": own.step.communication + own.step.transfer,
        "encode_seconds": own.encode,
        "decode_seconds": own.decode,
        **({"offload_seconds": own.offload} if splits.offloaded else {}),
        "load_seconds": load,
        "total_seconds": load + calls * mean,
    }


def _key(row: Row) -> str:
    """Rows of which it is the same take as long."""
    return str((sorted((name, str(value)) for name, value in row.args.items()), row.images))


def pipeline_calls(recipe: Recipe, facts: Facts, data: int) -> int:
    """Calls of the pipeline that the replica with the most rows makes, one after the other."""
    return ceil(ceil(max(1, len(facts.rows)) / data) / recipe.run.batch)


def _call(recipe: Recipe, facts: Facts, splits: Splits, placement: Placement, state: str) -> CallSeconds | None:
    settings = settings_of(recipe, facts)
    step = step_seconds(recipe, facts, splits, placement, settings, state)
    rates = {name: _rates(recipe, facts, splits, placement, name) for name in splits.components}
    if step is None:
        return None
    encode = 0.0
    for name, on in rates.items():
        if name.startswith("text_encoder") and on is not None:
            # A short prompt costs what reading the weights once costs.
            component = facts.model.components[name]
            work = encoder_flops(component, settings.text_tokens) * settings.batch
            unpacked = unpack_work(component, storage_of(recipe, name, facts.devices.kind))
            encode += max(work / on.matmul_flops, sum(placement.bytes_of[name].values()) / on.memory_bytes)
            encode += max(unpacked.passed_bytes / on.memory_bytes, unpacked.host_seconds)
    on = rates.get("vae")
    decode = decode_seconds_of(facts, settings, on) if on is not None else 0.0
    branches = branch_calls(recipe, facts.model)
    encode *= branches
    if on is not None and settings.picture_sizes:
        # Each picture goes through the autoencoder once, at about what decoding one of its size takes.
        at = encoded_sizes(recipe, facts.model, settings.picture_sizes) or ((settings.height_px, settings.width_px),)
        ones = (replace(settings, height_px=height, width_px=width, frames=None) for height, width in at)
        encode += sum(decode_seconds_of(facts, one, on) for one in ones)
    moved = offload_seconds(facts, splits, placement, branches)
    return CallSeconds(encode, step, settings.run_steps, decode, moved)


def _rates(recipe: Recipe, facts: Facts, splits: Splits, placement: Placement, name: str) -> Rates | None:
    """The rates of the device that a component lies on, in its dtype, else in the denoiser's; of all ranks' the slowest
    one's."""
    on = stands_for(facts.devices, splits, placement.device_of[name])
    own, other = (component_dtype(recipe, one, facts.devices.kind) for one in (name, facts.model.denoisers[0]))
    rates = [rates_of(device, own) or rates_of(device, other) for device in on]
    known = [one for one in rates if one is not None]
    return min(known, key=lambda one: one.matmul_flops) if len(known) == len(rates) else None


def decode_seconds_of(facts: Facts, settings: Settings, rates: Rates) -> float:
    """What a device takes to decode the pictures of a call."""
    frames = settings.frames or 1
    temporal = facts.model.tokens.get("frames", 0)
    latent = (frames - 1) // temporal + 1 if temporal else 1
    work = decode_flops(facts.model.components["vae"], settings.height_px, settings.width_px, frames, latent)
    return settings.batch * work / (rates.convolution_flops * constant("convolution"))


def _load_seconds(recipe: Recipe, facts: Facts, splits: Splits) -> float:
    """The ranks of a node read the same files: the second finds them in the system's cache."""
    whole = 0
    for name in splits.components:
        size = dtype_bytes(component_dtype(recipe, name, facts.devices.kind))
        whole += count_weights(facts.model.components[name]) * size
    return whole / constant("read_bytes_per_second")
