"""Every family under every strategy that is legal for it, with an adapter, noise at each step and two branches at once.

Here the verdict has to be yes; `test_oracle.py` only asks whether verdict and run agree.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the oracle needs the extra `run`")

from dcompile.facts.registry import picture_batches

from .ask import AGREED_NO, AGREED_YES, NOT_ASKABLE, Finding, ask, ask_plan, verdict
from .spread import spread
from .verified import FILE, collected, strategies_of, text_of
from .zoo import FAMILIES, FIRST

pytestmark = pytest.mark.slow

LIGHT = [name for name, family in FAMILIES.items() if not family.is_heavy]
CUT_AUTOENCODER = [name for name, family in FAMILIES.items() if family.cuts_autoencoder]


def offloaded(split: dict[str, Any], *names: str) -> dict[str, Any]:
    """A `parallel` section with components that are offloaded."""
    return {**split, "components": {name: {"offload": "model"} for name in names}}


def plans() -> list[tuple[str, dict[str, Any]]]:
    """Families with a `parallel` section each."""
    found = []
    for name, family in FAMILIES.items():
        if family.plans is not None:
            found += [(name, parallel) for parallel in family.plans]
            continue
        denoiser, encoder = family.denoisers[0], family.encoder
        found += [(name, split) for split in ({"data": 2}, *family.splits)]
        found.append((name, {"device_map": {denoiser: 1, "vae": 2}}))
        found.append((name, offloaded({"device_map": {denoiser: 1, "vae": 1}}, denoiser, encoder)))
        found.append((name, {"device_map": {denoiser: [1, 0], encoder: [0, 1]}}))
        if name not in FIRST:  # a small one may fit beside the denoiser whole
            others = {part: 2 for part in (denoiser, *family.parts) if part != encoder}
            found.append((name, {"device_map": {**others, encoder: [0, 1]}}))
        if family.cuts_autoencoder:
            found.append((name, {"device_map": {"vae": [2, 0, 1]}}))
        # The books of logical devices take their time over DTensors: one family is asked about those.
        kinds = [split for split in family.splits if "tensor" not in split or name == "flux2"]
        found += [(name, offloaded(split, *family.parts, *family.denoisers)) for split in ({}, *kinds[:1])]
        if family.encoder_degree is not None:
            found.append((name, {"components": {encoder: {"tensor": family.encoder_degree}}}))
    return found


def recipe_of(name: str, parallel: dict[str, Any], dtype: str = "float32") -> dict[str, Any]:
    """Two pictures of a tiny pipeline with all that a recipe can add to them."""
    family = FAMILIES[name]
    is_uneven = parallel.get("context", {}).get("uneven", False)
    height, width = family.sizes[2 if is_uneven else 0]
    args = {**family.args}
    if family.text_lengths != (None,):
        args["max_sequence_length"] = 7 if is_uneven and family.text_length == 12 else family.text_length
    run = {"prompts": ["red apple", "slice of pizza"], "height": height, "width": width, "steps": 2, "args": args}
    if family.frames[0] is not None:
        run["frames"] = family.frames[0]
    if family.images:
        run["images"] = list(family.images)
    model: dict[str, Any] = {"path": name, "dtype": dtype}
    if family.noise is not None:
        model["scheduler"] = family.noise
    if family.lora_targets:
        model["adapters"] = [{"path": f"{name}-lora"}]
    run |= {**family.branches, "seed": 5}
    return {"version": 1, "model": model, "devices": {"kind": "cpu"}, "parallel": parallel, "run": run}


def ask_cut(recipe: dict[str, Any], root: Path) -> Finding:
    """As `ask`; what the recipe lists several devices for is cut, however small it is."""
    codes, plan = verdict(recipe, root)
    return (
        Finding(NOT_ASKABLE, codes) if plan is None else ask_plan(recipe, root, codes, spread(plan, recipe["parallel"]))
    )


@pytest.mark.parametrize(("name", "parallel"), plans(), ids=str)
def test_the_pictures_are_those_of_one_process(name: str, parallel: dict[str, Any], root: Path) -> None:
    finding = ask_cut(recipe_of(name, parallel), root)
    assert finding.outcome == AGREED_YES, finding


@pytest.mark.parametrize("name", CUT_AUTOENCODER)
def test_a_cut_autoencoder_in_tiles(name: str, root: Path) -> None:
    recipe = recipe_of(name, {"device_map": {"vae": [1, 0]}})
    recipe["components"] = {"vae": {"tiling": True}}
    finding = ask_cut(recipe, root)
    assert finding.outcome == AGREED_YES, finding


@pytest.mark.parametrize("parallel", [offloaded({}, "transformer"), {"device_map": {"transformer": 1}}], ids=str)
def test_attention_that_compiles_itself_on_logical_devices(parallel: dict[str, Any], root: Path) -> None:
    recipe = recipe_of("flux", parallel)
    recipe["components"] = {"transformer": {"attention": "flex"}}
    finding = ask(recipe, root)
    assert finding.outcome == AGREED_YES, finding


def test_a_cut_autoencoder_of_wan_is_refused_and_wrong(root: Path) -> None:
    """Its blocks share a cache, which `check` says."""
    finding = ask_cut(recipe_of("wan", {"device_map": {"vae": [0, 1]}}), root)
    assert finding.outcome == AGREED_NO, finding
    assert finding.codes == ("DC461",)


def test_what_is_said_to_be_verified_is_what_was_run(root: Path) -> None:
    """The data file holds the plans of this file's first test, at the versions that are known."""
    strategies = []
    for name, parallel in plans():
        codes, plan = verdict(recipe_of(name, parallel), root)
        assert codes == ()
        assert plan is not None
        strategies += strategies_of(spread(plan, parallel)["program"])
    assert FILE.read_text(encoding="utf-8") == text_of(collected(strategies), picture_batches()), (
        "stale: run `python -m tests.oracle.verified`, which asks again"
    )


@pytest.mark.parametrize("name", [name for name in LIGHT if not FAMILIES[name].images and name != "wan-vace"])
def test_batches_in_bfloat16(name: str, root: Path) -> None:
    recipe = recipe_of(name, next(iter(FAMILIES[name].splits), {"data": 1}), "bfloat16")
    # Qwen-Image pads prompts of different length, and a split of the sequence cannot serve the mask.
    # Where padding is seen, only equal texts can share a call (DC414).
    prompts = ["red apple", "red apple" if FAMILIES[name].pads_without_mask else "green tree"]
    recipe["run"] |= {"batch": 2, "images_per_prompt": 2, "prompts": prompts}
    recipe["model"].pop("scheduler", None)
    finding = ask(recipe, root)
    assert finding.outcome == AGREED_YES, finding


@pytest.mark.parametrize("name", [name for name in LIGHT if FAMILIES[name].noise is not None])
def test_noise_at_each_step_in_batches(name: str, root: Path) -> None:
    """It is a picture's own where the pipeline hands its generators on, and is refused where not."""
    recipe = recipe_of(name, {})
    prompts = ["red apple", "red apple" if FAMILIES[name].pads_without_mask else "green tree"]
    recipe["run"] |= {"batch": 2, "prompts": prompts}
    finding = ask(recipe, root)
    assert finding.outcome == (AGREED_NO if "DC414" in finding.codes else AGREED_YES), finding


@pytest.mark.parametrize("name", [name for name in LIGHT if FAMILIES[name].pads_without_mask])
def test_pictures_of_one_call_that_would_depend_on_each_other(name: str, root: Path) -> None:
    recipe = recipe_of(name, {})
    recipe["run"] |= {"batch": 2, "prompts": ["red apple", "slice of pizza " * 8]}
    del recipe["model"]["scheduler"]
    finding = ask(recipe, root)
    assert finding.outcome == AGREED_NO, finding
    assert finding.codes == ("DC414",)


def test_one_prompt_a_call_is_all_that_wan_vace_takes(root: Path) -> None:
    recipe = recipe_of("wan-vace", {})
    recipe["run"]["batch"] = 2
    del recipe["model"]["scheduler"]
    finding = ask(recipe, root)
    assert (finding.outcome, finding.codes) == (AGREED_NO, ("DC366",)), finding


def test_a_length_is_passed_as_it_was_asked_for(root: Path) -> None:
    """LTX-2 makes 9 frames of 10, and the sound of 10; so a job that asked it for 9 would make another video."""
    recipe = recipe_of("ltx2", {})
    recipe["run"]["frames"] = 10
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
