"""Adapters under every way to split, with the picture of one process: merged and not, of either of two denoisers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the oracle needs the extra `run`")

from .warm import warm

pytestmark = pytest.mark.slow
FAMILIES = ("flux", "wan-two")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    warm()
    from . import zoo

    folder = tmp_path_factory.mktemp("adapters")
    zoo.save_all(folder, FAMILIES)
    layers = ["to_q", "to_out.0", "proj_mlp"]
    save(folder / "some", folder / "flux", layers)
    save(folder / "out", folder / "flux", ["proj_out", "to_k"], seed=2)
    save(folder / "dora", folder / "flux", layers, use_dora=True)
    return folder


def save(folder: Path, model: Path, layers: list[str], *, seed: int = 1, use_dora: bool = False) -> None:
    """An adapter of rank 2 for the tiny Flux."""
    import torch
    from diffusers import FluxPipeline, FluxTransformer2DModel
    from peft import LoraConfig
    from peft.utils import get_peft_model_state_dict

    transformer = FluxTransformer2DModel.from_pretrained(model / "transformer")
    transformer.add_adapter(LoraConfig(r=2, lora_alpha=2, target_modules=layers, use_dora=use_dora))
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in transformer.named_parameters():
        if "lora_A" in name or "lora_B" in name:
            parameter.data = torch.randn(parameter.shape, generator=generator) * 0.3
    FluxPipeline.save_lora_weights(folder, transformer_lora_layers=get_peft_model_state_dict(transformer))


def recipe_of(family: str, adapters: list[dict[str, Any]], parallel: dict[str, Any]) -> dict[str, Any]:
    from .zoo import FAMILIES as ALL

    height, width = ALL[family].sizes[0]
    run: dict[str, Any] = {"prompts": ["red apple"], "height": height, "width": width, "steps": 2, "seed": 3}
    run["args"] = {**ALL[family].args, "max_sequence_length": 8}
    if family == "wan-two":
        run |= {"frames": 5, "true_cfg": 2.0}
    model = {"path": family, "dtype": "float32", "adapters": adapters}
    return {"version": 1, "model": model, "devices": {"kind": "cpu"}, "parallel": parallel, "run": run}


FLUX: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "under-tensor": ([{"path": "some"}], {"tensor": 2}),
    "under-context": ([{"path": "some", "weight": 0.7}], {"context": {"ulysses": 2}}),
    "the-last-layer-under-context": ([{"path": "out"}], {"context": {"ring": 2}}),
    "between-blocks": ([{"path": "out"}, {"path": "some"}], {"device_map": {"transformer": [0, 1]}}),
    "one-merged-one-not": ([{"path": "some", "fuse": True, "weight": 0.5}, {"path": "out"}], {"data": 2}),
    "both-merged-under-tensor": ([{"path": "some", "weight": 0.5}, {"path": "out", "fuse": True}], {"tensor": 2}),
    "dora-under-tensor": ([{"path": "dora"}], {"tensor": 2}),
}


@pytest.mark.parametrize("name", FLUX)
def test_flux(name: str, root: Path) -> None:
    from .ask import AGREED_YES, ask

    adapters, parallel = FLUX[name]
    finding = ask(recipe_of("flux", adapters, parallel), root)
    assert finding.outcome == AGREED_YES, (finding.codes, finding.error, finding.difference, finding.traceback)


@pytest.mark.parametrize("components", [("transformer_2",), ("transformer", "transformer_2")])
@pytest.mark.parametrize("merge", [False, True])
def test_either_denoiser_of_two(components: tuple[str, ...], merge: bool, root: Path) -> None:
    from .ask import AGREED_YES, ask

    adapters = [{"path": "wan-two-lora", "component": name, "fuse": merge} for name in components]
    finding = ask(recipe_of("wan-two", adapters, {"context": {"ulysses": 2}}), root)
    assert finding.outcome == AGREED_YES, (finding.codes, finding.error, finding.difference, finding.traceback)


def test_an_adapter_changes_the_picture_of_its_own_denoiser(root: Path) -> None:
    from . import plain
    from .ask import compare

    makes = [
        plain.run_recipe(recipe_of("wan-two", adapters, {}), root).ranks[0]
        for adapters in ([], [{"path": "wan-two-lora"}], [{"path": "wan-two-lora", "component": "transformer_2"}])
    ]
    pairs = ((makes[0], makes[1]), (makes[0], makes[2]), (makes[1], makes[2]))
    assert min(compare((one,), other, (0.0, 0.0))[0] for one, other in pairs) > 1e-2


def test_layers_that_stay_under_tensor_are_refused_and_fail(root: Path) -> None:
    from .ask import AGREED_NO, ask

    finding = ask(recipe_of("flux", [{"path": "some", "fuse": False}], {"tensor": 2}), root)
    assert (finding.outcome, finding.codes) == (AGREED_NO, ("DC413",)), (finding.error, finding.difference)
    assert "set `fuse: true`" in str(finding.error)
