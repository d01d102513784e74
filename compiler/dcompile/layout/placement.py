"""Where every component's weights lie within a rank, and how many bytes that is on each device."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from dcompile.facts.resolve import Facts
from dcompile.facts.types import ComponentFacts
from dcompile.layout.packing import cut, pack
from dcompile.layout.settings import component_dtype
from dcompile.layout.shard import dtype_bytes, weight_bytes
from dcompile.layout.splits import Splits
from dcompile.recipe.model import Recipe


@dataclass(frozen=True)
class Placement:
    """Attributes:
    devices_per_rank: devices that one rank uses; above 1 only under a device map.
    device_of: the device of each component that lies whole on one.
    blocks_of: accelerate's device map of each component that is cut between blocks.
    bytes_of: bytes of each component on each device of a rank.
    """

    devices_per_rank: int
    device_of: dict[str, int]
    blocks_of: dict[str, dict[str, int]]
    bytes_of: dict[str, dict[int, int]]


def block_bytes(component: ComponentFacts, size: int) -> tuple[dict[str, int], dict[str, int]]:
    """Bytes of every block in order (`transformer_blocks.3`), and of every other child module (`x_embedder`)."""
    blocks = {f"{stack}.{i}": 0 for stack, count in component.blocks for i in range(count)}
    rest: dict[str, int] = {}
    for group in component.parameters:
        count = prod(group.shape) * size
        for stack, _ in component.blocks:
            if group.name.startswith(f"{stack}."):
                index = group.name[len(stack) + 1 :].partition(".")[0]
                if index == "*":  # the first `repeat` blocks; the last of a stack can be of another shape
                    for i in range(group.repeat):
                        blocks[f"{stack}.{i}"] += count
                else:
                    blocks[f"{stack}.{index}"] += count * group.repeat
                break
        else:
            child = group.name.partition(".")[0]
            rest[child] = rest.get(child, 0) + count * group.repeat
    return blocks, rest


def place(recipe: Recipe, facts: Facts, splits: Splits) -> Placement:
    """Place every component: where the recipe says, else packed so that the fullest device is as empty as it can be."""
    kind = facts.devices.kind
    size_of = {name: dtype_bytes(component_dtype(recipe, name, kind)) for name in splits.components}
    sizes = {
        name: weight_bytes(facts.model.components[name], size_of[name], split.tensor)
        for name, split in splits.components.items()
    }
    count = splits.named_devices
    if splits.balanced and facts.devices.total is not None:
        count = max(count, facts.devices.total // splits.ranks)
    if count == 1:
        return Placement(1, dict.fromkeys(sizes, 0), {}, {name: {0: size} for name, size in sizes.items()})

    memory = [facts.devices.memory_bytes(device) for device in range(count)]
    capacity = [float(m) if m else 1.0 for m in memory] if all(memory) else [1.0] * count
    loads = [0] * count
    blocks_of: dict[str, dict[str, int]] = {}
    bytes_of: dict[str, dict[int, int]] = {}
    fixed: dict[str, int] = {}
    for name, split in splits.components.items():
        if len(split.devices) > 1:
            blocks_of[name], bytes_of[name] = _cut(facts.model.components[name], size_of[name], split.devices, capacity)
            for device, held in bytes_of[name].items():
                loads[device] += held
        elif split.devices:
            fixed[name] = split.devices[0]
    whole = {name: size for name, size in sizes.items() if name not in blocks_of}
    device_of = pack(whole, loads, capacity, fixed)
    bytes_of |= {name: {device: sizes[name]} for name, device in device_of.items()}
    return Placement(count, device_of, blocks_of, bytes_of)


def _cut(
    component: ComponentFacts, size: int, devices: tuple[int, ...], capacity: list[float]
) -> tuple[dict[str, int], dict[int, int]]:
    """A component cut between blocks; what is no block stays on the first device, where its inputs arrive."""
    blocks, rest = block_bytes(component, size)
    start = [sum(rest.values()), *([0] * (len(devices) - 1))]
    at = cut(list(blocks.values()), start, [capacity[device] for device in devices])
    device_map = dict.fromkeys(rest, devices[0])
    device_map |= {name: devices[i] for name, i in zip(blocks, at, strict=True)}
    held = dict.fromkeys(devices, 0)
    held[devices[0]] += start[0]
    for (_, count), i in zip(blocks.items(), at, strict=True):
        held[devices[i]] += count
    return device_map, held
