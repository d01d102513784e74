"""Where every component's weights lie within a rank, and how many bytes that is on each device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf

from dcompile.facts.registry import tail_of, verified
from dcompile.facts.resolve import Facts
from dcompile.facts.types import ComponentFacts
from dcompile.layout.loaded import loaded_component
from dcompile.layout.nodes import devices_per_rank, stands_for
from dcompile.layout.packing import Chain, cut_all, fullness, pack
from dcompile.layout.splits import Splits
from dcompile.layout.stored import Storage, member_bytes, storage_of, stored_bytes
from dcompile.recipe.model import Recipe


@dataclass(frozen=True)
class Placement:
    """Attributes:
    devices_per_rank: devices that one rank uses; above 1 only under a device map.
    device_of: the device of each component; of one that is cut, the first.
    blocks_of: accelerate's device map of each component that is cut between blocks.
    bytes_of: bytes of each component on each device of a rank.
    """

    devices_per_rank: int
    device_of: dict[str, int]
    blocks_of: dict[str, dict[str, int]]
    bytes_of: dict[str, dict[int, int]]

    @property
    def home(self) -> int:
        """The device where the pipeline works: that of its first component by name.

        Source: diffusers 0.42.1, `pipeline_utils.py` (`device`, `_get_signature_keys`).
        """
        return self.device_of[min(self.device_of)]


@dataclass(frozen=True)
class Needs:
    """What components need beside their weights, in bytes.

    Attributes:
        peaks: of each while it is called; one that is not there needs none.
        kept: at home besides, in every phase.
    """

    peaks: Mapping[str, int] = field(default_factory=dict)
    kept: int = 0


@dataclass(frozen=True)
class Parts:
    """What a component that is cut consists of. Bytes by name, in the order of the class.

    Attributes:
        blocks: every block of its stacks (`transformer_blocks.3`).
        tail: child modules that come after the last stack and are only called (`norm_out`); they may lie behind the
            last block.
        rest: other child modules, and parameters of the component's own. They stay on its first device, where its
            inputs arrive and its own code runs.
    """

    blocks: dict[str, int]
    tail: dict[str, int]
    rest: dict[str, int]


@lru_cache(maxsize=256)
def parts_of(component: ComponentFacts, storage: Storage) -> Parts:
    """The parts of a component as it is stored."""
    stacks = [stack for stack, _ in component.blocks]
    blocks = {f"{stack}.{i}": 0 for stack, count in component.blocks for i in range(count)}
    rest: dict[str, int] = {}
    for group in (*component.parameters, *component.buffers):
        count = member_bytes(component, group, storage)
        stack = next((stack for stack in stacks if group.name.startswith(f"{stack}.")), None)
        if stack is None:
            child = group.name.partition(".")[0]
            rest[child] = rest.get(child, 0) + count * group.repeat
            continue
        index = group.name[len(stack) + 1 :].partition(".")[0]
        if index == "*":  # the first `repeat` blocks; the last of a stack can be of another shape
            for i in range(group.repeat):
                blocks[f"{stack}.{i}"] += count
        else:
            blocks[f"{stack}.{index}"] += count * group.repeat
    holders = {stack.partition(".")[0] for stack in stacks}
    behind = [name for name in tail_of(component.class_name) if name in rest and name not in holders]
    tail = {name: rest.pop(name) for name in behind}
    return Parts(blocks, tail, rest)


SHARING = ("AutoencoderKLWan",)
"""Classes whose blocks write into one list (`feat_cache` of `autoencoder_kl_wan.py`, diffusers 0.42.1): what moves a
block's inputs to its device hands it a list of its own, and the picture differs."""


def cannot_be_cut(component: ComponentFacts) -> str | None:
    """Why a component has to lie whole on one device, as a clause; None where it may be cut between its blocks."""
    if not component.blocks:
        return "it has no chain of blocks"
    if component.class_name in SHARING:
        return "its blocks share a cache"
    is_autoencoder = component.class_name.startswith(("Autoencoder", "AsymmetricAutoencoder", "VQModel"))
    if component.library == "transformers" or (component.no_split and not is_autoencoder):
        return None
    if "cut" not in verified().get(component.class_name, {}):
        return "no cut one was ever compared with a whole one"
    return None


def place(recipe: Recipe, facts: Facts, splits: Splits, needs: Needs) -> Placement:
    """Place every component: where the recipe says, else packed so that the fullest device is as empty as it can be.

    Args:
        recipe, facts, splits: the job.
        needs: what is needed beside weights (`memory/fit.py`). A device is as full as what stays there and the largest
            need among its components, of which one that is offloaded needs its weights too.
    """
    kind = facts.devices.kind
    storages = {name: storage_of(recipe, name, kind) for name in splits.components}
    loaded = {name: loaded_component(recipe, facts, splits, name) for name in splits.components}
    sizes = {
        name: stored_bytes(loaded[name], storages[name], split.tensor) for name, split in splits.components.items()
    }
    count = devices_per_rank(facts.devices, splits)
    if count == 1:
        return Placement(1, dict.fromkeys(sizes, 0), {}, {name: {0: size} for name, size in sizes.items()})

    capacity = _rooms(facts, splits, count)
    fixed = {name: split.devices[0] for name, split in splits.components.items() if len(split.devices) == 1}
    cuts = {
        name: (split.devices, parts_of(loaded[name], storages[name]))
        for name, split in splits.components.items()
        if len(split.devices) > 1
    }
    guests = splits.offloaded if kind != "cpu" else frozenset()
    whole = {name: held for name, held in sizes.items() if name not in cuts}
    staying = {name: 0 if name in guests else held for name, held in whole.items()}
    if (home := min(sizes)) in staying:
        staying[home] += needs.kept
    of = {name: needs.peaks.get(name, 0) + (whole.get(name, 0) if name in guests else 0) for name in sizes}
    # A tail behind the last block saves the sequence its way back, so it lies there where both are as good.
    placed = _arrange(whole, staying, fixed, cuts, capacity, of, together=False)
    assert placed is not None, "a packing exists whenever there is a device"
    fullest, placement = placed
    better = None
    if any(parts.tail for _, parts in cuts.values()):
        better = _arrange(whole, staying, fixed, cuts, capacity, of, together=True, below=fullest)
    return better[1] if better is not None else placement


def _rooms(facts: Facts, splits: Splits, count: int) -> list[float]:
    """What each device of a rank has beside its reserve, of all ranks the least; 1 for each where it is not known."""
    devices, reserve = facts.devices, facts.devices.reserve_bytes
    if not devices.has_memory:
        return [1.0] * count
    least = [min(one.memory_bytes for one in stands_for(devices, splits, device)) for device in range(count)]
    return [float(size - reserve if size > reserve else size) for size in least]


def _arrange(
    whole: dict[str, int],
    staying: dict[str, int],
    fixed: dict[str, int],
    cuts: dict[str, tuple[tuple[int, ...], Parts]],
    capacity: list[float],
    needs: Mapping[str, int],
    together: bool,
    below: float = inf,
) -> tuple[float, Placement] | None:
    """Pack components and cut chains.

    Args:
        whole: bytes of the components that lie whole.
        staying: what of them is there all the time.
        fixed: the device of those among them that the recipe places.
        cuts: devices and parts of each component that is cut.
        capacity: what the load of each device is measured against.
        needs: what each component takes besides while it is called.
        together: whether a tail lies on the first device of its component, not behind the last block.
        below: how full the fullest device may not be.

    Returns:
        How full the fullest device is (load / capacity), and the placement; None where it cannot be below `below`.
    """
    loads, tops = [0] * len(capacity), [0] * len(capacity)
    chains = []
    for name, (devices, parts) in cuts.items():
        loads[devices[0]] += sum(parts.rest.values()) + (sum(parts.tail.values()) if together else 0)
        tops[devices[0]] = max(tops[devices[0]], needs[name])
        links = (*parts.blocks.values(), *(() if together else parts.tail.values()))
        chains.append(Chain(links, devices, needs[name]))
    device_of = pack(staying, loads, capacity, fixed, chains, below, needs, tops)
    if device_of is None:
        return None
    for name, device in device_of.items():
        loads[device] += staying[name]
        tops[device] = max(tops[device], needs[name])
    bytes_of = {name: {device: whole[name]} for name, device in device_of.items()}
    blocks_of: dict[str, dict[str, int]] = {}
    places, loads, tops = cut_all(chains, loads, capacity, tops)
    for (name, (devices, parts)), at in zip(cuts.items(), places, strict=True):
        first, sizes = devices[0], {**parts.rest, **parts.tail, **parts.blocks}
        order = [*parts.blocks, *(() if together else parts.tail)]
        blocks_of[name] = dict.fromkeys([*parts.rest, *parts.tail], first) | dict(zip(order, at, strict=True))
        held = dict.fromkeys(devices, 0)
        for part, device in blocks_of[name].items():
            held[device] += sizes[part]
        bytes_of[name] = held
        device_of[name] = first
    return fullness(loads, tops, capacity), Placement(len(capacity), device_of, blocks_of, bytes_of)
