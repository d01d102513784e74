"""Our packing beside the libraries' `balanced`, on the real models and on random instances, in one run.

`python tests/benchmarks/test_packing_compared.py` writes the tables into `compiler/docs/packing.md`.

Whole components: diffusers' `_assign_components_to_devices`, which `device_map="balanced"` of a pipeline calls. One
component between its blocks: accelerate's `get_balanced_memory` and `infer_auto_device_map`, on modules of the real
names and sizes on the meta device. What counts is the fullest device: its load over its room.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from statistics import median

import pytest
import torch
from accelerate.utils import get_balanced_memory, infer_auto_device_map
from accelerate.utils.modeling import compute_module_sizes
from dcompile.core.units import GIB
from dcompile.facts.registry import known_models, load_hardware, load_model
from dcompile.facts.types import ComponentFacts
from dcompile.layout.packing import Chain, cut_all, pack
from dcompile.layout.placement import Parts, cannot_be_cut, parts_of
from dcompile.layout.shard import weight_bytes
from dcompile.layout.stored import Storage
from diffusers.pipelines.pipeline_loading_utils import _assign_components_to_devices
from torch import nn

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "compiler" / "docs" / "packing.md"
BF16 = 2
MACHINES = {
    "2 x RTX 4090": ("rtx-4090", "rtx-4090"),
    "3 x RTX 4090": ("rtx-4090",) * 3,
    "L40S + RTX 4090": ("l40s", "rtx-4090"),
    "2 x A100 40 GB": ("a100-sxm-40gb",) * 2,
}
DEGREES = (2, 3, 4)
RANDOM_INSTANCES = 2000
RANDOM_CHAINS = 200


@dataclass(frozen=True)
class Outcome:
    """One instance: how full the fullest device is, and what the library left off its devices.

    Attributes:
        library, ours: load over room of the fullest device.
        library_bytes, our_bytes: its load.
        lost: parts that the library names no device for.
        away: parts that the library puts on the CPU or the disk.
    """

    library: float
    ours: float
    library_bytes: int
    our_bytes: int
    lost: int = 0
    away: int = 0

    @property
    def is_placed(self) -> bool:
        """Whether the library put everything on a device."""
        return not self.lost and not self.away


def _fullest(loads: Sequence[int], room: Sequence[int]) -> tuple[float, int]:
    return max((load / most, load) for load, most in zip(loads, room, strict=True))


def whole(sizes: dict[str, int], room: Sequence[int]) -> Outcome:
    """Whole components on devices; asserts that ours names a device for each of them."""
    # As `_get_final_device_map` calls it: the largest first, devices with the most room first.
    ordered = dict(sorted(sizes.items(), key=lambda item: item[1], reverse=True))
    memory = dict(sorted(enumerate(room), key=lambda item: item[1], reverse=True))
    chosen = _assign_components_to_devices(ordered, memory)
    loads = [sum(sizes[name] for name in chosen.get(device, ())) for device in range(len(room))]
    ours = pack(sizes, [0] * len(room), [float(most) for most in room])
    assert set(ours) == set(sizes)
    own = [sum(size for name, size in sizes.items() if ours[name] == device) for device in range(len(room))]
    assert sum(own) == sum(sizes.values())
    placed = sum(len(names) for names in chosen.values())
    away = len(chosen.get("cpu", ()))
    (library, library_bytes), (mine, our_bytes) = _fullest(loads, room), _fullest(own, room)
    return Outcome(library, mine, library_bytes, our_bytes, len(sizes) - placed, away)


class Block(nn.Module):
    """A module that stays whole."""


class UpBlock(Block):
    """A UNet's, which its class names among those that stay whole, beside the parts of its down blocks."""


def _kind(path: str, component: ComponentFacts) -> type[nn.Module]:
    stack, _, last = path.rpartition(".")
    if component.class_name.startswith("UNet"):
        if stack.endswith(("resnets", "transformer_blocks")):
            return Block
        return UpBlock if stack == "up_blocks" else nn.Module
    return Block if last.isdecimal() and stack in dict(component.blocks) else nn.Module


@lru_cache(maxsize=4)
def modules_of(component: ComponentFacts) -> nn.Module:
    """A component's modules with its parameters and saved buffers on the meta device, in the order of the class."""
    root = nn.Module()
    for group in (*component.parameters, *component.buffers):
        for index in range(group.repeat):
            *path, leaf = group.name.replace("*", str(index)).split(".")
            place = root
            for depth, name in enumerate(path):
                if name not in place._modules:
                    place.add_module(name, _kind(".".join(path[: depth + 1]), component)())
                place = place._modules[name]
            empty = torch.empty(group.shape, dtype=torch.bfloat16, device="meta")
            if group in component.buffers:
                place.register_buffer(leaf, empty)
            else:
                place.register_parameter(leaf, nn.Parameter(empty, requires_grad=False))
    return root


def chain_of(sizes: Sequence[int]) -> nn.Module:
    """A chain of blocks of so many bytes each."""
    blocks = []
    for size in sizes:
        block = Block()
        block.weight = nn.Parameter(torch.empty(size, dtype=torch.uint8, device="meta"), requires_grad=False)
        blocks.append(block)
    root = nn.Module()
    root.blocks = nn.ModuleList(blocks)
    return root


def between_blocks(model: nn.Module, parts: Parts, room: Sequence[int]) -> Outcome:
    """One component cut between its blocks; asserts that both place every byte."""
    kinds = ["Block", "UpBlock"]
    memory = dict(enumerate(room))
    balanced = get_balanced_memory(model, max_memory=dict(memory), no_split_module_classes=kinds)
    chosen = infer_auto_device_map(model, max_memory=balanced, no_split_module_classes=kinds)
    held = compute_module_sizes(model)
    loads = [sum(held[name] for name, device in chosen.items() if device == number) for number in memory]
    away = sum(held[name] for name, device in chosen.items() if not isinstance(device, int))
    assert sum(loads) + away == held[""]
    rest, tail = sum(parts.rest.values()), sum(parts.tail.values())
    ways = []
    for together in (True, False):
        start = [rest + (tail if together else 0), *[0] * (len(room) - 1)]
        chain = Chain((*parts.blocks.values(), *(() if together else parts.tail.values())), tuple(memory))
        _, own, _ = cut_all([chain], start, [float(most) for most in room])
        assert sum(own) == held[""]
        ways.append(_fullest(own, room))
    (library, library_bytes), (mine, our_bytes) = _fullest(loads, room), min(ways)
    return Outcome(library, mine, library_bytes, our_bytes, away=int(away > 0))


def real_components() -> dict[str, dict[str, int]]:
    """Bytes in bfloat16 of the components of each known model, of equal ones the first."""
    found: dict[str, dict[str, int]] = {}
    for name in known_models():
        sizes = {part: weight_bytes(facts, BF16) for part, facts in load_model(name).components.items()}
        if sizes not in found.values():
            found[name] = sizes
    return found


def real_denoisers() -> dict[str, ComponentFacts]:
    """Each denoiser that can be cut, of equal ones the first."""
    found: dict[str, ComponentFacts] = {}
    for name in known_models():
        model = load_model(name)
        component = model.components[model.denoisers[0]]
        if cannot_be_cut(component) is None and all(component.parameters != one.parameters for one in found.values()):
            found[name] = component
    return found


def machine(name: str) -> list[int]:
    return [load_hardware(gpu).memory_bytes for gpu in MACHINES[name]]


def even_room(total: int, devices: int) -> list[int]:
    return [int(1.5 * total / devices)] * devices


def random_components(seed: int) -> tuple[dict[str, int], list[int]]:
    """Two to eight components of 0.1 to 30 GiB on two to four devices, every other time of different size."""
    draw = random.Random(seed)
    sizes = {f"part{i}": int(GIB * 10 ** draw.uniform(-1, 1.5)) for i in range(draw.randint(2, 8))}
    count = draw.randint(2, 4)
    kinds = [16, 24, 40, 48, 80]
    room = [draw.choice(kinds)] * count if seed % 2 else [draw.choice(kinds) for _ in range(count)]
    return sizes, [most * GIB for most in room]


def random_chain(seed: int) -> tuple[list[int], list[int]]:
    """Eight to sixty blocks of up to three sizes, one after the other, on two to four devices of one size."""
    draw = random.Random(seed)
    blocks = [size for size in draw.sample(range(50, 700), draw.randint(1, 3)) for _ in range(draw.randint(8, 20))]
    return [size << 20 for size in blocks], even_room(sum(blocks) << 20, draw.randint(2, 4))


@lru_cache(maxsize=1)
def outcomes() -> dict[str, dict[tuple[str, str], Outcome]]:
    """Everything that is compared, by kind: (what, where) to the outcome."""
    logging.getLogger("accelerate").setLevel(logging.ERROR)
    found: dict[str, dict[tuple[str, str], Outcome]] = {"models": {}, "random": {}, "denoisers": {}, "chains": {}}
    for name, sizes in real_components().items():
        for where in MACHINES:
            found["models"][name, where] = whole(sizes, machine(where))
    for seed in range(RANDOM_INSTANCES):
        sizes, room = random_components(seed)
        found["random"][str(seed), f"{len(room)}, {'equal' if len(set(room)) == 1 else 'unequal'}"] = whole(sizes, room)
    for name, component in real_denoisers().items():
        # All in bfloat16, as the library counts it; what a class keeps in float32 is left out of the comparison.
        parts = parts_of(replace(component, float32=()), Storage("bfloat16"))
        total = weight_bytes(component, BF16)
        for count in DEGREES:
            model = modules_of(component)
            found["denoisers"][name, str(count)] = between_blocks(model, parts, even_room(total, count))
    for seed in range(RANDOM_CHAINS):
        blocks, room = random_chain(seed)
        named = {f"blocks.{i}": size for i, size in enumerate(blocks)}
        found["chains"][str(seed), str(len(room))] = between_blocks(chain_of(blocks), Parts(named, {}, {}), room)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["models", "random", "denoisers", "chains"])
def test_never_worse(kind: str) -> None:
    """Where the library puts everything on a device, our fullest device is at most as full."""
    found = outcomes()[kind]
    placed = {key: one for key, one in found.items() if one.is_placed}
    assert {key: one for key, one in placed.items() if one.ours > one.library * (1 + 1e-12)} == {}
    assert len(placed) > len(found) / 5
    assert any(one.ours < one.library * 0.95 for one in placed.values())


@pytest.mark.slow
def test_the_library_loses_components_and_ours_fit_where_anything_does() -> None:
    """Ours is the optimum, so where its fullest device is too full, no assignment of whole components fits."""
    found = outcomes()["random"].values()
    assert any(one.lost for one in found)
    assert any(one.lost and one.ours <= 1 for one in found)
    assert all(one.ours <= 1 for one in found if one.is_placed)


@pytest.mark.slow
def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), f"stale: run `python {Path(__file__).relative_to(ROOT)}`"


INTRODUCTION = """# Packing, beside `balanced` of the libraries

Written by `python tests/benchmarks/test_packing_compared.py`, which compares both in one run; the same file asserts
that ours is never worse. A device map of ours is exact: the fullest device (its load over its room) is as empty as it
can be, and among equals the components change devices least often (`layout/packing.py`). `tests/unit/test_packing.py`
holds that against every assignment of up to 8 components to 4 devices, one of them cut into block ranges. Every
component is placed exactly once. All sizes here are weights in bfloat16.

The packing of a recipe, its own and that of `parallel: auto`, counts activations besides
([why](adr/0028-packings-count-activations.md)): a device's load is all weights that stay on it and the largest need
among its components, for they are called one after the other; one that is offloaded needs its weights too. Its room is
its memory without the reserve. `tests/unit/test_placed_jobs.py` holds that against every assignment of real models.
CogVideoX-2b on A100 of 40 GB: by weights the autoencoder, whose decode takes 38 GiB, would lie beside the encoder or
the transformer, and nothing would fit without offloading; with the peaks it has a card of its own.

## Whole components

`device_map: balanced` beside diffusers' `device_map="balanced"` (diffusers 0.42.1, `pipeline_loading_utils.py`). Each
cell: how full the fullest device is, the library's and ours. Where the library leaves a component off the devices,
the cell says so: it is on the CPU, or lost, where a second one that does not fit takes the entry of the first. `too
large`: whole components fit in no way.
"""
BETWEEN_BLOCKS = """## One component between its blocks

`device_map: {transformer: [0, 1]}` beside accelerate's `get_balanced_memory` and `infer_auto_device_map` (accelerate
1.15), on devices with half as much room again as an even share. The fullest device's load in GiB; `even` is the
denoiser's size over the devices, which nothing can beat. `not all`: some of it is on the disk.
"""


def page() -> str:
    """`compiler/docs/packing.md`."""
    found = outcomes()
    parts = [
        INTRODUCTION,
        *_model_rows(found["models"]),
        "\nRandom ones, two to eight components of 0.1 to 30 GiB:\n",
        *_random_rows(found["random"]),
        "",
        BETWEEN_BLOCKS,
        *_denoiser_rows(found["denoisers"]),
        "\nRandom chains of eight to sixty blocks, of up to three sizes:\n",
        *_chain_rows(found["chains"]),
    ]
    return "\n".join(parts) + "\n"


def _gib(count: int) -> str:
    return f"{count / GIB:.2f}"


def _said(one: Outcome) -> str:
    ours = f"{one.ours:.1%}" if one.ours <= 1 else "too large"
    left = [f"{one.away} on the CPU"] if one.away else []
    left += [f"{one.lost} lost"] if one.lost else []
    library = ", ".join(left) if left else f"{one.library:.1%}"
    return f"{library} / {ours}"


def _model_rows(found: dict[tuple[str, str], Outcome]) -> list[str]:
    rows = [f"| library / ours | {' | '.join(MACHINES)} |", "|---" * (len(MACHINES) + 1) + "|"]
    for name in dict.fromkeys(name for name, _ in found):
        rows.append(f"| {name} | {' | '.join(_said(found[name, where]) for where in MACHINES)} |")
    return rows


def _random_rows(found: dict[tuple[str, str], Outcome]) -> list[str]:
    rows = [
        "| devices | instances | library places all | ours better, equal, worse | median and largest library / ours "
        "| library loses some | puts some on the CPU | of these ours fits |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for where in sorted({where for _, where in found}):
        every = [one for (_, at), one in found.items() if at == where]
        placed, failed = [one for one in every if one.is_placed], [one for one in every if not one.is_placed]
        cells = [
            where,
            len(every),
            len(placed),
            _verdicts(placed),
            _ratios(placed),
            sum(one.lost > 0 for one in failed),
            sum(one.lost == 0 for one in failed),
            sum(one.ours <= 1 for one in failed),
        ]
        rows.append(f"| {' | '.join(map(str, cells))} |")
    return rows


def _verdicts(placed: list[Outcome]) -> str:
    better = sum(one.ours < one.library * (1 - 1e-12) for one in placed)
    worse = sum(one.ours > one.library * (1 + 1e-12) for one in placed)
    return f"{better}, {len(placed) - better - worse}, {worse}"


def _ratios(placed: list[Outcome]) -> str:
    ratios = [one.library / one.ours for one in placed]
    return f"{median(ratios):.2f}, {max(ratios):.2f}"


def _denoiser_rows(found: dict[tuple[str, str], Outcome]) -> list[str]:
    head = " | ".join(f"{count} devices, even | accelerate | ours" for count in DEGREES)
    rows = [f"| | {head} |", "|---" * (3 * len(DEGREES) + 1) + "|"]
    for name, component in real_denoisers().items():
        total = weight_bytes(component, BF16)
        cells = []
        for count in DEGREES:
            one = found[name, str(count)]
            cells += [_gib(total // count), "not all" if one.away else _gib(one.library_bytes), _gib(one.our_bytes)]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return rows


def _chain_rows(found: dict[tuple[str, str], Outcome]) -> list[str]:
    rows = [
        "| devices | chains | accelerate places all | ours better, equal, worse "
        "| median and largest accelerate / ours |",
        "|---|---|---|---|---|",
    ]
    for where in sorted({where for _, where in found}):
        every = [one for (_, at), one in found.items() if at == where]
        placed = [one for one in every if one.is_placed]
        rows.append(f"| {where} | {len(every)} | {len(placed)} | {_verdicts(placed)} | {_ratios(placed)} |")
    return rows


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8", newline="\n")
    print(f"written: {PAGE.relative_to(ROOT)}")
