"""Known models and devices, read from the generated JSON files beside this package. Imports no torch."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from dcompile.facts.types import ComponentFacts, HardwareFacts, ModelFacts, TensorGroup, TensorStyle

PACKAGE = Path(__file__).resolve().parent.parent
MODELS = PACKAGE / "models"
HARDWARE = PACKAGE / "hardware" / "devices.json"


def read_json(path: Path) -> Any:
    """The decoded content of one of the package's own data files."""
    return json.loads(path.read_text(encoding="utf-8"))


@lru_cache(maxsize=1)
def _index() -> dict[str, str]:
    index: dict[str, str] = read_json(MODELS / "index.json")
    return index


def known_models() -> tuple[str, ...]:
    """The hub ids whose facts are known, sorted."""
    return tuple(_index())


@lru_cache(maxsize=1)
def known_versions() -> dict[str, str]:
    """The versions of the libraries that the facts were generated from: those that a verdict goes by.

    A recipe's `requires` may name others of the same facts; every plan says by which versions it was made.
    """
    versions: dict[str, str] = read_json(MODELS / "versions.json")
    return versions


def known_version() -> str:
    """The version of diffusers that the facts were generated from."""
    return known_versions()["diffusers"]


@lru_cache(maxsize=1)
def _compared() -> dict[str, Any]:
    found: dict[str, Any] = read_json(MODELS / "verified.json")
    return found


def verified() -> dict[str, dict[str, list[int | str]]]:
    """By class: the degrees of `tensor`, the modes of `context` and the numbers of devices of a `cut` component under
    which it was compared with one process, with the libraries of `known_versions`."""
    found: dict[str, dict[str, list[int | str]]] = _compared()["classes"]
    return found


def picture_batches() -> dict[str, str]:
    """Pipelines that make of several prompts and input pictures in one call what they make in a call for each: `shared`
    where that call takes the pictures as for one prompt, `each` where it takes a picture for every prompt."""
    found: dict[str, str] = _compared()["picture_batches"]
    return found


@lru_cache(maxsize=32)
def load_model(model_id: str) -> ModelFacts:
    """The facts of a known model.

    Raises:
        KeyError: where `known_models` does not have the id.
    """
    return decode_model(read_json(MODELS / _index()[model_id]))


@lru_cache(maxsize=1)
def classes_with_context_plan() -> tuple[str, ...]:
    """The classes of diffusers whose own plan splits a sequence, sorted."""
    classes: dict[str, Any] = read_json(MODELS / "classes.json")["classes"]
    return tuple(sorted(name for name, known in classes.items() if known["context_plan"]))


@lru_cache(maxsize=1)
def _tails() -> dict[str, list[str]]:
    tails: dict[str, list[str]] = read_json(MODELS / "tails.json")["tails"]
    return tails


def tail_of(class_name: str) -> tuple[str, ...]:
    """The parts of a class that come after its blocks and are only called: often a norm and a Linear."""
    return tuple(_tails().get(class_name, ()))


def decode_model(data: dict[str, Any]) -> ModelFacts:
    """The model that a decoded `models/*.json` file describes."""
    components = {name: decode_component(part) for name, part in data["components"].items()}
    return ModelFacts(
        **{
            **data,
            "components": components,
            "denoisers": tuple(data["denoisers"]),
            "pictures": tuple(data.get("pictures", ())),
        },
    )


def decode_component(data: dict[str, Any]) -> ComponentFacts:
    """The component that an entry of a decoded `models/*.json` file describes."""
    return ComponentFacts(
        class_name=data["class_name"],
        library=data["library"],
        config=data["config"],
        parameters=tuple(TensorGroup(name, tuple(shape), repeat) for name, shape, repeat in data["parameters"]),
        tensor_plan=tuple(TensorStyle(module, style, tuple(blocks)) for module, style, blocks in data["tensor_plan"]),
        heads=data["heads"],
        blocks=tuple((name, count) for name, count in data["blocks"]),
        context_plan=data["context_plan"],
        context_splits_text=data["context_splits_text"],
        no_split=tuple(data["no_split"]),
        dtype=data["dtype"],
        repeated_blocks=bool(data.get("repeated_blocks")),
        float32=tuple(data.get("float32", ())),
        unquantized=matrices_of(data.get("unquantized")),
        buffers=tuple(TensorGroup(name, tuple(shape), repeat) for name, shape, repeat in data.get("buffers", [])),
    )


def matrices_of(unquantized: dict[str, list[str]] | None) -> dict[str, tuple[str, ...]] | None:
    """The decoded `unquantized` of a component or a class."""
    return None if unquantized is None else {method: tuple(names) for method, names in unquantized.items()}


@lru_cache(maxsize=1)
def _devices() -> dict[str, Any]:
    devices: dict[str, Any] = read_json(HARDWARE)["devices"]
    return devices


def known_hardware() -> tuple[str, ...]:
    """The device names of the hardware table, sorted."""
    return tuple(sorted(_devices()))


@lru_cache(maxsize=1)
def names_of_drivers() -> dict[str, str]:
    """The table's name of each device that drivers have one for, by theirs."""
    names: dict[str, str] = read_json(HARDWARE.parent / "names.json")["names"]
    return names


def load_hardware(name: str) -> HardwareFacts:
    """The facts of a known device.

    Raises:
        KeyError: where `known_hardware` does not have the name.
    """
    device = _devices()[name]
    plain: dict[str, Any] = {key: value if isinstance(value, str) else value[0] for key, value in device.items()}
    sources = [f"{key}: {value[1]}" for key, value in device.items() if not isinstance(value, str)]
    return HardwareFacts(name=name, source="; ".join(sources), **plain)
