"""Offload together with something else. `offload: model` is there; by groups and by layers it is refused as not yet."""

from __future__ import annotations

import pytest
from conftest import Compile, Verdict

RUN = "run: {prompts: [a red fox]}"
FLUX = f"version: 1\nmodel: {{id: black-forest-labs/FLUX.1-dev}}\n{RUN}\ndevices: {{gpu: h100-sxm-80gb, per_node: 2}}\n"
NOT_YET = ("DC400", "error", "parallel.components.transformer.offload")


def test_case_022_offload_before_context(verdict: Verdict) -> None:
    """huggingface/diffusers#12533: hooks in the wrong order give wrong shapes at the second call.

    The order in the runtime: `tests/distributed/test_offload.py::test_the_split_is_inside_of_the_offload`.
    """
    assert verdict(FLUX + "parallel: {context: {ulysses: 2}, components: {transformer: {offload: model}}}") == []


def test_case_024_an_adapter_on_a_mapped_pipeline(verdict: Verdict) -> None:
    """huggingface/diffusers#7919: adapters are loaded before anything is placed, so a map and an adapter are legal.

    The order in the runtime: `tests/distributed/test_placement.py::test_an_adapter_beside_a_map`; with offload:
    `tests/oracle/test_strategies.py`, where every family has an adapter.
    """
    text = FLUX.replace("FLUX.1-dev}", "FLUX.1-dev, adapters: [{path: a.safetensors}]}")
    assert verdict(text + "parallel: {device_map: {transformer: 0, text_encoder_2: 1}}") == []
    both = "parallel: {device_map: {text_encoder_2: 1, vae: 1}, components: {text_encoder_2: {offload: model}}}"
    assert verdict(text + both) == []


@pytest.mark.parametrize("component", ["transformer", "vae", "text_encoder"])
def test_case_025_group_offload_by_blocks(component: str, verdict: Verdict) -> None:
    """huggingface/diffusers#11086: layers outside the block list stay on the CPU."""
    wan = f"version: 1\nmodel: {{id: Wan-AI/Wan2.1-T2V-1.3B-Diffusers}}\n{RUN}\ndevices: {{gpu: l40s}}\n"
    text = wan + f"parallel: {{components: {{{component}: {{offload: group}}}}}}"
    (found,) = verdict(text)
    assert found[:3] == ("DC400", "error", f"parallel.components.{component}.offload")
    assert found.hint == "write `offload: model`"
    assert {found.severity for found in verdict(text.replace("group", "model"))} <= {"advice"}


def test_case_026_group_offload_of_4_bit(verdict: Verdict) -> None:
    """huggingface/diffusers#10797: a quantized component has its own loader, and stays on its device."""
    text = (
        FLUX.replace(", per_node: 2", "")
        + "components: {text_encoder: {quantize: {method: bitsandbytes, type: nf4}}}\n"
    )
    text += "parallel: {components: {text_encoder: {offload: group}}}"
    assert [found[:3] for found in verdict(text)] == [
        ("DC400", "error", "parallel.components.text_encoder.offload"),
        ("DC435", "error", "parallel.components.text_encoder.offload"),
    ]
    assert [found.code for found in verdict(text.replace("group", "model"))] == ["DC435"]


def test_case_028_a_development_version(compiled: Compile, verdict: Verdict) -> None:
    """huggingface/diffusers#13488: a development build broke offload: none can be asked for."""
    text = FLUX.replace(", per_node: 2", "")
    (found,) = verdict(text + 'requires: {diffusers: "0.38.0.dev0"}')
    assert found[:3] == ("DC310", "error", "requires.diffusers")
    plan = compiled(text).plan_json
    assert plan is not None
    assert plan["requires"]["diffusers"].count(".") == 2


def test_case_029_a_quantized_checkpoint_that_is_to_be_offloaded(verdict: Verdict) -> None:
    """huggingface/diffusers#12811: it loads onto the GPU at once. Its facts are not known."""
    text = f"version: 1\nmodel: {{id: diffusers/FLUX.2-dev-bnb-4bit}}\n{RUN}\n"
    text += "devices: {gpu: rtx-4090}\nparallel: {components: {transformer: {offload: model}}}"
    (found,) = verdict(text)
    assert found[:3] == ("DC301", "error", "model.id")


def test_case_030_offload_and_compile(verdict: Verdict) -> None:
    """pytorch/pytorch#150711: hooks around a compiled forward break its graph: compiling is refused as not yet."""
    text = FLUX.replace(", per_node: 2", "") + "components: {transformer: {compile: true}}\n"
    text += "parallel: {components: {transformer: {offload: sequential}}}"
    found = verdict(text)
    assert {finding[:3] for finding in found} == {NOT_YET, ("DC400", "error", "components.transformer.compile")}
    (found_one,) = verdict(text.replace("sequential", "model"))
    assert found_one[:3] == ("DC400", "error", "components.transformer.compile")
