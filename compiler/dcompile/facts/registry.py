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


@lru_cache(maxsize=32)
def load_model(model_id: str) -> ModelFacts:
    """The facts of a known model.

    Raises:
        KeyError: where `known_models` does not have the id.
    """
    return decode_model(read_json(MODELS / _index()[model_id]))


def decode_model(data: dict[str, Any]) -> ModelFacts:
    """The model that a decoded `models/*.json` file describes."""
    components = {name: _decode_component(part) for name, part in data["components"].items()}
    return ModelFacts(
        **{**data, "components": components, "denoisers": tuple(data["denoisers"])},
    )


def _decode_component(data: dict[str, Any]) -> ComponentFacts:
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
    )


@lru_cache(maxsize=1)
def _devices() -> dict[str, Any]:
    devices: dict[str, Any] = read_json(HARDWARE)["devices"]
    return devices


def known_hardware() -> tuple[str, ...]:
    """The device names of the hardware table, sorted."""
    return tuple(sorted(_devices()))


def load_hardware(name: str) -> HardwareFacts:
    """The facts of a known device.

    Raises:
        KeyError: where `known_hardware` does not have the name.
    """
    device = _devices()[name]
    plain: dict[str, Any] = {key: value if isinstance(value, str) else value[0] for key, value in device.items()}
    sources = [f"{key}: {value[1]}" for key, value in device.items() if not isinstance(value, str)]
    return HardwareFacts(name=name, source="; ".join(sources), **plain)
