"""What the header of an adapter's file on this machine says: which layers of which component it changes.

Reads names and shapes only; an adapter that is elsewhere (a hub id, a cluster's disk) has no facts.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from dcompile.facts.errors import FactsError
from dcompile.facts.safetensors import read_header

WEIGHT_NAME = "pytorch_lora_weights.safetensors"
"""The file that diffusers prefers in a folder with several (0.42.1, `loaders/lora_base.py:289`)."""

_LAYER = re.compile(r"(?P<module>.+)\.(?:lora_(?P<side>A|B)|lora\.(?P<old>down|up))\.weight")
_SIGNS = ("lora", "lokr", "hada", "dora")


@dataclass(frozen=True)
class Layer:
    """A linear layer that an adapter changes: the sizes that it takes the layer to have, and its rank."""

    inputs: int
    outputs: int
    rank: int


@dataclass(frozen=True)
class AdapterFacts:
    """One adapter.

    Attributes:
        file: the file's name.
        fault: why it is no adapter, and what to do; None where it is one.
        components: layers by module name, by the component that the file names; empty where the file is in another
            program's format, which diffusers converts.
    """

    file: str
    fault: tuple[str, str] | None = None
    components: dict[str, dict[str, Layer]] = field(default_factory=dict)


def adapter_facts(path: Path, components: Collection[str]) -> AdapterFacts | None:
    """The facts of an adapter on this machine; None where there is none at the path.

    Args:
        path: a `.safetensors` file, or a folder with one.
        components: names of components, which files in diffusers' format begin their tensors with.
    """
    if path.is_dir():
        files = sorted(path.glob("*.safetensors"))
        preferred = [file for file in files if file.name.endswith(WEIGHT_NAME)] or files
        if len(preferred) != 1:
            what = "no `.safetensors` file" if not preferred else f"{len(preferred)} `.safetensors` files"
            return AdapterFacts(path.name, (f"the folder `{path.name}` holds {what}", "name the file itself"))
        path = preferred[0]
    elif not path.is_file():
        return None
    if path.suffix != ".safetensors":
        hint = "convert it: other files can hold code that runs when they are read"
        return AdapterFacts(path.name, (f"`{path.name}` is no `.safetensors` file", hint))
    try:
        tensors = {name: shape for name, (shape, _) in read_header(path).items()}
    except FactsError as error:
        return AdapterFacts(path.name, (error.message, error.hint))
    if not any(sign in name.lower() for name in tensors for sign in _SIGNS):
        kind = "an IP-Adapter" if any(name.startswith(("ip_adapter", "image_proj")) for name in tensors) else "no LoRA"
        return AdapterFacts(path.name, (f"`{path.name}` is {kind}: it holds no low-rank weights", "name a LoRA"))
    return AdapterFacts(path.name, components=_layers(tensors, components))


def _layers(tensors: dict[str, tuple[int, ...]], components: Collection[str]) -> dict[str, dict[str, Layer]]:
    sides: dict[str, dict[str, tuple[int, ...]]] = {}
    for name, shape in tensors.items():
        match = _LAYER.fullmatch(name)
        if match is None:
            continue
        side = match["side"] or {"down": "A", "up": "B"}[match["old"]]
        sides.setdefault(match["module"], {})[side] = shape
    found: dict[str, dict[str, Layer]] = {}
    for module, pair in sides.items():
        component, _, layer = module.partition(".")
        if component in components and layer and len(pair) == 2 and all(len(shape) == 2 for shape in pair.values()):
            rank, inputs = pair["A"]
            found.setdefault(component, {})[layer] = Layer(inputs, pair["B"][0], rank)
    return found
