"""A component as it lies on a device: with the layers that adapters leave beside its own."""

from __future__ import annotations

from dataclasses import replace

from dcompile.facts.adapters import AdapterFacts, Layer
from dcompile.facts.resolve import Facts
from dcompile.facts.types import ComponentFacts, TensorGroup
from dcompile.layout.splits import Splits, is_merged
from dcompile.recipe.model import Recipe


def loaded_component(recipe: Recipe, facts: Facts, splits: Splits, name: str) -> ComponentFacts:
    """The facts of a component with the layers of every adapter that is not merged into its weights.

    They are in the dtype of the layer that they change, whatever their file's: peft 0.19, `tuners_utils.py`
    (`_move_adapter_to_device_of_base_layer`). An adapter that is elsewhere, or in another program's format, adds none.
    """
    component, groups = facts.model.components[name], []
    for adapter, found in zip(recipe.model.adapters, facts.adapters, strict=False):
        if found is not None and not is_merged(adapter, splits):
            for module, layer in _layers(facts, found, adapter.component or facts.model.denoisers[0], name).items():
                groups.append(TensorGroup(f"{module}.lora_A.weight", (layer.rank, layer.inputs)))
                groups.append(TensorGroup(f"{module}.lora_B.weight", (layer.outputs, layer.rank)))
    return replace(component, parameters=(*component.parameters, *groups)) if groups else component


def _layers(facts: Facts, found: AdapterFacts, target: str, name: str) -> dict[str, Layer]:
    """The layers that a file changes in a component. A file made for one denoiser serves another one too."""
    if name in facts.model.denoisers:
        return (found.components.get(name) or found.components.get("transformer") or {}) if name == target else {}
    return found.components.get(name, {})
