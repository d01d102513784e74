"""Every family under every strategy that is legal for it, with an adapter, noise at each step and two branches at once.

Here the verdict has to be yes; `test_oracle.py` only asks whether verdict and run agree.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the oracle needs the extra `run`")

from .ask import AGREED_NO, AGREED_YES, ask, verdict
from .verified import FILE, collected, strategies_of, text_of
from .zoo import FAMILIES

pytestmark = pytest.mark.slow

ULYSSES, RING = {"context": {"ulysses": 2}}, {"context": {"ring": 2}}
UNIFIED, UNEVEN = {"context": {"ulysses": 2, "ring": 2}}, {"context": {"ulysses": 2, "uneven": True}}
UNEVEN_FOUR = {"context": {"ulysses": 4, "uneven": True}}
UNEVEN_RING = {"context": {"ring": 3, "uneven": True}}
SPLITS: dict[str, tuple[dict[str, Any], ...]] = {
    "flux": ({"tensor": 2}, {"tensor": 4}, ULYSSES, RING, UNIFIED, UNEVEN, UNEVEN_RING),
    "flux2": ({"tensor": 2}, {"tensor": 4}, ULYSSES, RING, UNIFIED, UNEVEN, UNEVEN_FOUR, UNEVEN_RING),
    "qwen-image": ({"tensor": 2}, {"tensor": 3}, UNEVEN, UNEVEN_RING, {"data": 2, "tensor": 2}),
    "wan": (ULYSSES, RING, UNIFIED, UNEVEN, UNEVEN_RING, {"data": 2, **ULYSSES}),
    "wan-two": (ULYSSES, RING, UNIFIED, {"components": {"transformer_2": ULYSSES}}),
    "ltx": (),
    "sd3": (),
    "sdxl": (),
}
ENCODERS_UNDER_TENSOR = {"flux2": 2, "qwen-image": 2}
"""Families whose encoder has a tensor plan of its own, and a degree that its key-value heads allow."""
CUT_AUTOENCODER = ("flux", "flux2", "qwen-image", "ltx")
"""Families of one autoencoder class each; that of Wan cannot be cut."""
CUT_ENCODER = {name: "text_encoder_3" if name == "sd3" else "text_encoder" for name in FAMILIES}


def offloaded(split: dict[str, Any], *names: str) -> dict[str, Any]:
    """A `parallel` section with components that are offloaded."""
    return {**split, "components": {name: {"offload": "model"} for name in names}}


def plans() -> list[tuple[str, dict[str, Any]]]:
    """Families with a `parallel` section each."""
    found = []
    for name, family in FAMILIES.items():
        denoiser, encoder = family.denoisers[0], CUT_ENCODER[name]
        found += [(name, split) for split in ({"data": 2}, *SPLITS[name])]
        found.append((name, {"device_map": {denoiser: 1, "vae": 2}}))
        found.append((name, offloaded({"device_map": {denoiser: 1, "vae": 1}}, denoiser, encoder)))
        found.append((name, {"device_map": {denoiser: [1, 0], encoder: [0, 1]}}))
        if name in CUT_AUTOENCODER:
            found.append((name, {"device_map": {"vae": [2, 0, 1]}}))
        # The books of logical devices take their time over DTensors: one family is asked about those.
        kinds = [split for split in SPLITS[name] if "tensor" not in split or name == "flux2"]
        found += [(name, offloaded(split, *family.parts, *family.denoisers)) for split in ({}, *kinds[:1])]
        if name in ENCODERS_UNDER_TENSOR:
            found.append((name, {"components": {encoder: {"tensor": ENCODERS_UNDER_TENSOR[name]}}}))
    return found


def recipe_of(name: str, parallel: dict[str, Any], dtype: str = "float32") -> dict[str, Any]:
    """Two pictures of a tiny pipeline with all that a recipe can add to them."""
    family = FAMILIES[name]
    is_uneven = parallel.get("context", {}).get("uneven", False)
    height, width = family.sizes[2 if is_uneven else 0]
    args = {**family.args}
    if family.text_lengths != (None,):
        args["max_sequence_length"] = 512 if name == "qwen-image" else 7 if is_uneven else 12
    run = {"prompts": ["red apple", "slice of pizza"], "height": height, "width": width, "steps": 2, "args": args}
    if family.frames != (None,):
        run["frames"] = family.frames[0]
    if name != "flux2":
        run |= {"true_cfg": 2.0, "negative_prompt": "green tree"}
    is_sdxl = name == "sdxl"
    scheduler = {"class": "EulerAncestralDiscreteScheduler"} if is_sdxl else {"stochastic_sampling": True}
    model = {"path": name, "dtype": dtype, "scheduler": scheduler, "adapters": [{"path": f"{name}-lora"}]}
    return {"version": 1, "model": model, "devices": {"kind": "cpu"}, "parallel": parallel, "run": {**run, "seed": 5}}


@pytest.mark.parametrize(("name", "parallel"), plans(), ids=str)
def test_the_pictures_are_those_of_one_process(name: str, parallel: dict[str, Any], root: Path) -> None:
    finding = ask(recipe_of(name, parallel), root)
    assert finding.outcome == AGREED_YES, finding


@pytest.mark.parametrize("name", CUT_AUTOENCODER)
def test_a_cut_autoencoder_in_tiles(name: str, root: Path) -> None:
    recipe = recipe_of(name, {"device_map": {"vae": [1, 0]}})
    recipe["components"] = {"vae": {"tiling": True}}
    finding = ask(recipe, root)
    assert finding.outcome == AGREED_YES, finding


@pytest.mark.parametrize("parallel", [offloaded({}, "transformer"), {"device_map": {"transformer": 1}}], ids=str)
def test_attention_that_compiles_itself_on_logical_devices(parallel: dict[str, Any], root: Path) -> None:
    recipe = recipe_of("flux", parallel)
    recipe["components"] = {"transformer": {"attention": "flex"}}
    finding = ask(recipe, root)
    assert finding.outcome == AGREED_YES, finding


def test_a_cut_autoencoder_of_wan_is_refused_and_wrong(root: Path) -> None:
    """Its blocks share a cache, which `check` says."""
    finding = ask(recipe_of("wan", {"device_map": {"vae": [0, 1]}}), root)
    assert finding.outcome == AGREED_NO, finding
    assert finding.codes == ("DC461",)


def test_what_is_said_to_be_verified_is_what_was_run(root: Path) -> None:
    """The data file holds the plans of this file's first test, at the versions that are known."""
    strategies = []
    for name, parallel in plans():
        codes, plan = verdict(recipe_of(name, parallel), root)
        assert codes == ()
        assert plan is not None
        strategies += strategies_of(plan["program"])
    assert FILE.read_text(encoding="utf-8") == text_of(collected(strategies)), (
        "stale: run `python -m tests.oracle.verified`, which asks again"
    )


@pytest.mark.parametrize("name", FAMILIES)
def test_batches_in_bfloat16(name: str, root: Path) -> None:
    recipe = recipe_of(name, SPLITS[name][0] if SPLITS[name] else {"data": 1}, "bfloat16")
    # Qwen-Image pads prompts of different length, and a split of the sequence cannot serve the mask.
    recipe["run"] |= {"batch": 2, "images_per_prompt": 2, "prompts": ["red apple", "green tree"]}
    del recipe["model"]["scheduler"]
    finding = ask(recipe, root)
    assert finding.outcome == AGREED_YES, finding


def test_arguments_are_passed_as_a_script_would(root: Path) -> None:
    """A second text stands for every picture of a call, and a pair of numbers is a tuple: SDXL joins the two."""
    recipe = recipe_of("sdxl", {"data": 1})
    recipe["run"]["args"] = {"prompt_2": "green tree", "original_size": [32, 48]}
    recipe["run"]["batch"] = 2
    del recipe["model"]["scheduler"]
    finding = ask(recipe, root)
    assert finding.outcome == AGREED_YES, finding
