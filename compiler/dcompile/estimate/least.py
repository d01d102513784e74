"""The least that a job can take on so many devices: what no plan goes below, asked without making any."""

from __future__ import annotations

from dataclasses import dataclass

from dcompile.estimate.constants import constant, rates_of
from dcompile.estimate.job import decode_seconds_of, pipeline_calls
from dcompile.estimate.step import device_seconds_of, host_seconds_of
from dcompile.estimate.work import Tokens, denoiser_work
from dcompile.facts.guidance import branch_calls, extra_calls
from dcompile.facts.resolve import Facts
from dcompile.layout.settings import component_dtype, has_own_shape, settings_of
from dcompile.layout.shard import dtype_bytes
from dcompile.recipe.model import Recipe


@dataclass(frozen=True)
class Least:
    """Seconds of one call of the pipeline.

    Attributes:
        device: all steps on one device, of those there are the fastest.
        host: what its host takes to start them, however many devices there are.
        decode: on one device.
        apart: share of the shorter of the first two that the longer does not hide.
    """

    recipe: Recipe
    facts: Facts
    device: float
    host: float
    decode: float
    apart: float

    def seconds(self, sharing: int, data: int) -> float:
        """The job where `sharing` devices halve every step as often as can be, in so many replicas."""
        device = self.device / sharing
        steps = max(device, self.host) + self.apart * min(device, self.host)
        return pipeline_calls(self.recipe, self.facts, data) * (steps + self.decode)


def least_of(recipe: Recipe, facts: Facts) -> Least | None:
    """The least of a job by its work alone: no exchange, no text, no copy is counted.

    Returns:
        None where the time of a device is not known, or rows have shapes of their own.
    """
    model, kind = facts.model, facts.devices.kind
    name = model.denoisers[0]
    dtype = component_dtype(recipe, name, kind)
    rates = [rates_of(device, dtype) for device in facts.devices.node]
    known = [one for one in rates if one is not None]
    if not known or len(known) < len(rates) or any(map(has_own_shape, facts.rows)):
        return None
    settings, component = settings_of(recipe, facts), model.components[name]
    image, text = settings.sequence_tokens, settings.text_tokens
    work = denoiser_work(component, Tokens(image, text, image, text))
    branches, extra = branch_calls(recipe, model), extra_calls(model, recipe.run.args)
    samples, size = settings.batch * (branches + extra), dtype_bytes(dtype)
    calls = (1 if model.guidance["branches"] == "batched" else branches) + extra
    decode = 0.0
    if "vae" in model.components:
        own = component_dtype(recipe, "vae", kind)
        of_vae = [rates_of(device, own) or one for device, one in zip(facts.devices.node, known, strict=True)]
        decode = min(decode_seconds_of(facts, settings, one) for one in of_vae)
    return Least(
        recipe=recipe,
        facts=facts,
        device=settings.run_steps * min(device_seconds_of(work, one, samples, size) for one in known),
        host=settings.run_steps * calls * work.blocks * min(host_seconds_of(component, [one]) for one in known),
        decode=decode,
        apart=1.0 if kind == "cpu" else constant("not_overlapped"),
    )
