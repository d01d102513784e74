"""Seconds of one denoising step: work by the rates of the device, plus what the ranks exchange.

    device = matmul / rate + attention / rate + passes over memory + unpacking of quantized weights
    step   = max(device, host) + not_overlapped * min(device, host) + collectives, for each call of the denoiser

`host` is the time in which Python starts the kernels of the blocks: a lower bound of an eager step. A CPU does the work
itself, and nothing overlaps. Collectives are not hidden: diffusers waits for each (0.42.1, `attention_dispatch.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from dcompile.estimate.constants import Rates, constant, rates_of
from dcompile.estimate.links import Network, collective_seconds, default_node_link, is_link, transfer_seconds
from dcompile.estimate.traffic import step_traffic, step_transfers
from dcompile.estimate.unpack import unpack_work
from dcompile.estimate.work import Tokens, Work, denoiser_work
from dcompile.facts.guidance import branch_calls, extra_calls
from dcompile.facts.links import known_links
from dcompile.facts.resolve import Facts
from dcompile.facts.types import ComponentFacts, HardwareFacts
from dcompile.layout.nodes import Group, Nodes, group_of, layout_nodes, used_devices
from dcompile.layout.placement import Placement
from dcompile.layout.settings import Settings, component_dtype
from dcompile.layout.shard import dtype_bytes
from dcompile.layout.splits import Split, Splits
from dcompile.layout.stored import storage_of
from dcompile.recipe.model import Recipe


@dataclass(frozen=True)
class StepSeconds:
    """One step of one call of the pipeline, all branches together."""

    compute: float
    communication: float
    transfer: float

    @property
    def total(self) -> float:
        """Seconds of the step."""
        return self.compute + self.communication + self.transfer


def tokens_of(facts: Facts, name: str, split: Split, settings: Settings) -> Tokens:
    """The tokens of one sample, and a rank's share of them under context parallelism."""
    image = settings.sequence_tokens
    text = settings.text_tokens
    here = -(-text // split.context) if facts.model.components[name].context_splits_text else text
    return Tokens(image, text, -(-image // split.context), here)


def network_of(facts: Facts, used: tuple[HardwareFacts, ...]) -> Network:
    """How the devices of a node that are used are linked: all wait for the slowest link.

    A link that is not known stays: what crosses it is not estimated.
    """
    devices = facts.devices
    return Network(slowest_link(used), devices.node_link or default_node_link(), devices.curves)


def slowest_link(used: tuple[HardwareFacts, ...]) -> str:
    """The slowest link of some devices, by what two of them exchange; one that is not known before all others."""
    links = dict.fromkeys(device.link for device in used)
    if len(links) == 1:
        return next(iter(links))
    unknown = [link for link in links if not is_link(link, known_links())]
    return unknown[0] if unknown else max(links, key=lambda link: collective_seconds("all_gather", 2, 2**24, link))


def device_seconds_of(work: Work, rates: Rates, samples: int, size: int, state: str = "eager") -> float:
    """What a device takes for the work of so many samples, whose numbers have so many bytes."""
    passes = constant("residual_passes", state) * work.residual_elements
    passes += constant("inner_passes", state) * work.inner_elements
    once = work.matmul_flops / rates.matmul_flops + work.attention_flops / rates.attention_flops
    once += work.convolution_flops / rates.convolution_flops
    return samples * (once + passes * size / rates.memory_bytes)


def host_seconds_of(component: ComponentFacts, rates: list[Rates], state: str = "eager") -> float:
    """Of one block: of the device whose host is slowest, where that was measured (eager, a block of FLUX.1)."""
    usual = constant("host_seconds_per_block", state)
    own = constant("host_seconds_per_unet_block", state) if "UNet" in component.class_name else usual
    measured = [one.host_seconds_per_block for one in rates if one.host_seconds_per_block is not None]
    return max(measured) * own / usual if measured and state == "eager" else own


def step_seconds(
    recipe: Recipe, facts: Facts, splits: Splits, placement: Placement, settings: Settings, state: str = "eager"
) -> StepSeconds | None:
    """Seconds of a step of the job's slowest rank.

    Args:
        recipe, facts, splits, placement, settings: the job, and one shape of it.
        state: `eager` or `compiled`.

    Returns:
        None where it cannot be told: a device or a link that neither the tables nor the recipe's measurements have.
    """
    name = facts.model.denoisers[0]
    dtype = component_dtype(recipe, name, facts.devices.kind)
    used = used_devices(facts.devices, splits)
    rates = [rates_of(device, dtype) for device in used]
    known = [one for one in rates if one is not None]
    if len(known) < len(rates):
        return None
    size = dtype_bytes(dtype)
    split, component = splits.components[name], facts.model.components[name]
    work = denoiser_work(component, tokens_of(facts, name, split, settings), split.tensor)
    branches, extra = branch_calls(recipe, facts.model), extra_calls(facts.model, recipe.run.args)
    samples = settings.batch * (branches + extra)
    calls = (1 if facts.model.guidance["branches"] == "batched" else branches) + extra

    network, nodes = network_of(facts, used), layout_nodes(facts.devices, splits, placement.devices_per_rank)
    collectives = _collectives(recipe, facts, splits, settings, network, nodes)
    handed = step_transfers(recipe, facts, splits, placement, settings).get("transfer")
    held = placement.bytes_of[name]
    whole = sum(held.values())
    if collectives is None or (handed is not None and not network.knows("all_gather", Group.neighbours(2))):
        return None

    def of_rank(rank: int) -> float:
        """A rank's devices work one after the other, each on its share of the blocks."""
        first = nodes.local(rank) * placement.devices_per_rank
        return sum(
            device_seconds_of(work, known[(first + device) % len(known)], samples, size, state) * part / whole
            for device, part in held.items()
        )

    # After as many ranks as a node has devices the same ones come again.
    device_seconds = max(of_rank(rank) for rank in range(min(nodes.ranks_per_node, len(known))))
    unpacked = unpack_work(component, storage_of(recipe, name, facts.devices.kind))
    device_seconds += calls * unpacked.passed_bytes / min(one.memory_bytes for one in known)
    host = calls * (work.blocks * host_seconds_of(component, known, state) + unpacked.host_seconds)
    if split.ring > 1:
        host += calls * work.blocks * constant("ring_host_seconds_per_block", state)
        merged = (split.ring - 1) * constant("ring_merge_passes") * work.residual_elements * 2 * size
        device_seconds += samples * merged / min(one.memory_bytes for one in known)
    apart = 1.0 if facts.devices.kind == "cpu" else constant("not_overlapped")
    compute = max(device_seconds, host) + apart * min(device_seconds, host)

    communication = samples / settings.batch * collectives
    transfer = 0.0
    if handed is not None:
        one = transfer_seconds(handed["bytes"] / handed["calls"], network)
        transfer = samples / settings.batch * handed["calls"] * one
    return StepSeconds(compute, communication, transfer)


def _collectives(
    recipe: Recipe, facts: Facts, splits: Splits, settings: Settings, network: Network, nodes: Nodes
) -> float | None:
    """Seconds of all exchanges of one call of the denoiser; None where the speed of a link is not known."""
    split = splits.components[facts.model.denoisers[0]]
    groups = {
        "all_reduce": ("tensor", split.tensor),
        "all_to_all": ("ulysses", split.ulysses),
        "all_gather": ("ring", split.ring) if split.ring > 1 else ("ulysses", split.context),
    }
    total = 0.0
    for operation, moved in step_traffic(recipe, facts, splits, settings).items():
        calls, (axis, ranks) = moved["calls"], groups[operation]
        if not calls:
            continue
        group = group_of(splits, nodes, axis, ranks)
        if not network.knows(operation, group):
            return None
        total += calls * collective_seconds(operation, group, moved["bytes"] / calls, network)
    return total
