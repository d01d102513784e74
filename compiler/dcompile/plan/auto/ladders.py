"""Changes of a job or its machine that make it need less, or give it more: each kind a ladder, its smallest step first.

A step of a ladder needs no more memory of a device than the step before it, so the first that fits is found by halves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from dcompile.core.units import format_bytes
from dcompile.facts import registry
from dcompile.facts.resolve import DeviceFacts, Facts
from dcompile.layout.settings import settings_of, size_can_be_given
from dcompile.memory.host import host_memory_bytes
from dcompile.recipe.model import Component, Devices, Quantize, Recipe

MOST_DEVICES = 64
"""Devices of a node up to which more are looked for, and nodes."""
LARGER = 1.05
"""What a larger device has at least of the memory of another: of equal chips drivers keep a few MiB more or less."""
EIGHT_BIT = Quantize(method="torchao", type="int8wo")


@dataclass(frozen=True)
class Job:
    """A recipe that asks for `auto`, and its facts."""

    recipe: Recipe
    facts: Facts

    @property
    def total(self) -> int:
        """Devices in all."""
        return self.facts.devices.total or 1


@dataclass(frozen=True)
class Step:
    """A change as a recipe would have it, and the job with it. `are_many` says that the text is a plural."""

    text: str
    apply: Callable[[Job], Job]
    are_many: bool = False


Ladder = tuple[Step, ...]


def ladders(job: Job) -> tuple[Ladder, ...]:
    """Every ladder of a job that has a step, changes of the machine first."""
    of_machine = (more_devices, more_nodes, larger_devices, more_host_memory)
    of_job = (tiles, fewer_a_call, fewer_frames, smaller_picture, eight_bit)
    return tuple(ladder for kind in (*of_machine, *of_job) if (ladder := kind(job)))


def mild_ladders(job: Job) -> tuple[Ladder, ...]:
    """Those of them that leave the machine as it is, and the pictures in size and length."""
    return tuple(ladder for kind in (tiles, fewer_a_call, eight_bit) if (ladder := kind(job)))


def _is_mixed(devices: DeviceFacts) -> bool:
    return len({device.memory_bytes for device in devices.node}) > 1


def _with_devices(text: str, **changed: Any) -> Step:
    def apply(job: Job) -> Job:
        return replace(job, facts=replace(job.facts, devices=replace(job.facts.devices, **changed)))

    return Step(text, apply)


def _with_run(text: str, are_many: bool = False, **changed: Any) -> Step:
    def apply(job: Job) -> Job:
        return replace(job, recipe=job.recipe.model_copy(update={"run": job.recipe.run.model_copy(update=changed)}))

    return Step(text, apply, are_many)


def _with_components(text: str, change: dict[str, dict[str, Any]], are_many: bool = False) -> Step:
    def apply(job: Job) -> Job:
        own = dict(job.recipe.components)
        for name, keys in change.items():
            own[name] = (own.get(name) or Component()).model_copy(update=keys)
        return replace(job, recipe=job.recipe.model_copy(update={"components": own}))

    return Step(text, apply, are_many)


def more_devices(job: Job) -> Ladder:
    """More devices of the same kind on each node.

    Which of a mixed box's devices there would be more of is not for us to say.
    """
    now = job.facts.devices.per_node
    return () if now is None or _is_mixed(job.facts.devices) else _counts("per_node", now)


def more_nodes(job: Job) -> Ladder:
    """More nodes, where there are several already."""
    now = job.facts.devices.nodes
    return _counts("nodes", now) if now > 1 else ()


def _counts(key: str, now: int) -> Ladder:
    counts = sorted({*range(now + 1, now + 9), 16, 32, MOST_DEVICES})
    return tuple(_with_devices(f"`{key}: {count}`", **{key: count}) for count in counts if now < count <= MOST_DEVICES)


def larger_devices(job: Job) -> Ladder:
    """As many devices with more memory, of those that are known; the smallest of each size."""
    devices = job.facts.devices
    most = max((device.memory_bytes for device in devices.node), default=0)
    known = [registry.load_hardware(name) for name in registry.known_hardware()]
    of_size = {device.memory_bytes: device for device in reversed(known) if device.kind == devices.kind}
    return tuple(
        _with_devices(f"`gpu: {of_size[size].name}` ({format_bytes(size)})", node=(of_size[size],), curves={})
        for size in sorted(of_size)
        if size > LARGER * most
    )


def more_host_memory(job: Job) -> Ladder:
    """A host with more memory for what is offloaded, where the recipe says what it has."""
    now = host_memory_bytes(job.recipe)
    if now is None:
        return ()
    sizes = dict.fromkeys(ceil(now * factor / 2**30) for factor in (1.25, 1.5, 2, 3, 4, 6, 8, 12, 16))
    return tuple(_with_host(f"{size}GiB") for size in sizes)


def _with_host(size: str) -> Step:
    def apply(job: Job) -> Job:
        assert isinstance(job.recipe.devices, Devices)
        devices = job.recipe.devices.model_copy(update={"host_memory": size})
        return replace(job, recipe=job.recipe.model_copy(update={"devices": devices}))

    return Step(f"`host_memory: {size}`", apply)


def tiles(job: Job) -> Ladder:
    """The autoencoder in tiles."""
    own = job.recipe.components.get("vae") or Component()
    if "vae" not in job.facts.model.components or own.tiling:
        return ()
    return (_with_components("`components: {vae: {tiling: true}}`", {"vae": {"tiling": True}}),)


def fewer_a_call(job: Job) -> Ladder:
    """Fewer pictures in one call."""
    now = job.recipe.run.batch
    counts = sorted({now - 1, now * 3 // 4, now // 2, now // 4, 1} - {0, now}, reverse=True)
    return tuple(_with_run(f"`batch: {count}`", batch=count) for count in counts)


def fewer_frames(job: Job) -> Ladder:
    """A shorter clip, by eighths, of a length that the pipeline takes without rounding."""
    now, temporal = settings_of(job.recipe, job.facts).frames, job.facts.model.tokens.get("frames", 0)
    if now is None or not temporal:
        return ()
    lengths = dict.fromkeys((now * eighths // 8 - 1) // temporal * temporal + 1 for eighths in range(7, 0, -1))
    return tuple(_with_run(f"`frames: {length}`", frames=length) for length in lengths if temporal < length < now)


def smaller_picture(job: Job) -> Ladder:
    """Fewer pixels, by eighths of the sides."""
    model = job.facts.model
    settings = settings_of(job.recipe, job.facts)
    if not size_can_be_given(model, job.recipe.run.args):
        return ()
    step = max(model.tokens["spatial"], model.tokens.get("multiple", 1))
    sizes = dict.fromkeys(
        (max(step, settings.height_px * n // 8 // step * step), max(step, settings.width_px * n // 8 // step * step))
        for n in range(7, 1, -1)
    )
    return tuple(_with_run(f"{wide}x{high} pixels", True, height=high, width=wide) for high, wide in sizes)


def eight_bit(job: Job) -> Ladder:
    """Weights of 8 bits: of the denoisers, then of every encoder too. The rules say whether they can be had."""
    model = job.facts.model
    encoders = tuple(name for name, component in model.components.items() if component.library == "transformers")
    steps = []
    for names in dict.fromkeys((model.denoisers, (*model.denoisers, *encoders))):
        plain = [name for name in names if (own := job.recipe.components.get(name)) is None or own.quantize is None]
        if plain:
            key = "quantize: {method: torchao, type: int8wo}"
            text = ", ".join(f"{name}: {{{key}}}" for name in plain)
            steps.append(
                _with_components(f"`components: {{{text}}}`", {name: {"quantize": EIGHT_BIT} for name in plain})
            )
    return tuple(steps)
