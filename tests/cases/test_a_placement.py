"""Placement: whole components on devices, device maps, and sizes of memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import Compile, Verdict

RUN = "run: {prompts: [a red fox]}"
FLUX = f"version: 1\nmodel: {{id: black-forest-labs/FLUX.1-dev, dtype: bfloat16}}\n{RUN}\n"
FLUX2 = f"version: 1\nmodel: {{id: black-forest-labs/FLUX.2-dev, dtype: bfloat16}}\n{RUN}\n"
QWEN = f"version: 1\nmodel: {{id: Qwen/Qwen-Image, dtype: bfloat16}}\n{RUN}\n"
WAN22 = f"version: 1\nmodel: {{id: Wan-AI/Wan2.2-T2V-A14B-Diffusers, dtype: bfloat16}}\n{RUN}\n"
TWO_H100 = "devices: {gpu: h100-sxm-80gb, per_node: 2}\n"


def held(plan: dict[str, Any]) -> list[dict[str, float]]:
    """Per device what lies there, in GiB to two digits."""
    return [
        {name: round(part["weight_bytes"] / 2**30, 2) for name, part in device["components"].items()}
        for device in plan["devices"]
    ]


def plan_of(compiled: Compile, text: str) -> dict[str, Any]:
    plan = compiled(text).plan_json
    assert plan is not None
    return plan


def test_case_001_flux_on_four_cards_of_16_gb(verdict: Verdict) -> None:
    """huggingface/diffusers#9127: no card takes the transformer whole; the ways out are computed."""
    memory = "devices: {kind: cuda, per_node: 4, memory: 16GB}\n"
    (found,) = verdict(FLUX + memory + "parallel: {device_map: balanced}")
    assert found[:3] == ("DC501", "error", "devices.memory")
    assert "`transformer` needs 22.17 GiB on device 0, which has 14.90 GiB" in found.message
    assert "`device_map: {transformer: [0, 1, 2]}` fits" in found.hint
    assert "`tensor: 4` leaves 10.14 GiB of `transformer` a device" in found.hint
    cut = verdict(FLUX + memory + "parallel: {device_map: {transformer: [0, 1, 2], text_encoder_2: 3}}")
    assert cut == []
    # The maintainers' 16 + 16 + 24 GB runs: the transformer has the large card for itself.
    mixed = "devices: {gpus: [l4, l4, rtx-4090]}\nparallel: {device_map: {transformer: 2, text_encoder_2: 0, vae: 1}}"
    assert [finding.code for finding in verdict(FLUX + mixed)] == ["DC503"]


def test_case_002_three_cards_of_24_gb(compiled: Compile, verdict: Verdict) -> None:
    """huggingface/diffusers#9195: it fits to the brim and takes minutes: a warning with what lies on the device."""
    text = FLUX + "devices: {kind: cuda, per_node: 3, memory: 24GiB}\nparallel: {device_map: balanced}"
    (found,) = verdict(text)
    assert found[:3] == ("DC503", "warning", "devices.memory")
    assert "of 24.00 GiB are left on device 0 (`transformer` 22.17 GiB, activations about" in found.message
    devices = held(plan_of(compiled, text))
    assert devices[0] == {"transformer": 22.17}
    assert sorted(map(len, devices[1:])) == [1, 2]


def test_case_004_an_own_transformer_under_a_map(verdict: Verdict) -> None:
    """huggingface/diffusers#9450: one placement holds for all components, those given on their own too.

    Transfers at every border are kept by `tests/distributed/test_strategies.py::test_device_map` and
    `tests/oracle/test_quantize.py`, whose logical devices refuse an operation on two.
    """
    head = FLUX + "devices: {kind: cuda, per_node: 2, memory: 11GiB}\nparallel: {device_map: balanced}\n"
    assert [found.code for found in verdict(head)] == ["DC501"]
    assert verdict(head + "components: {transformer: {quantize: {method: bitsandbytes, type: nf4}}}") == []


def test_case_005_a_class_without_blocks_that_stay_whole(verdict: Verdict) -> None:
    """huggingface/diffusers#9450: diffusers has no map for a class that does not say what stays whole.

    Our cuts ask nothing of diffusers: LTX is cut where a cut one was compared with a whole one, by
    `tests/oracle/test_strategies.py::test_the_pictures_are_those_of_one_process`. A class that never was is refused.
    """
    devices = "devices: {gpu: l4, per_node: 2}\n"
    ltx = "version: 1\nmodel: {id: Lightricks/LTX-Video, dtype: bfloat16}\nrun: {prompts: [a red fox], frames: 9}\n"
    assert verdict(ltx + devices + "parallel: {device_map: {transformer: [0, 1]}}") == []
    hunyuan = "version: 1\nmodel: {id: Tencent-Hunyuan/HunyuanDiT-Diffusers}\nrun: {prompts: [a red fox]}\n" + devices
    assert verdict(hunyuan + "parallel: {device_map: {transformer: [0, 1]}}") == []
    folder = Path(__file__).parents[1] / "golden/models/asymmetric-flux"
    never = f"version: 1\nmodel: {{path: {folder}}}\nrun: {{prompts: [a red fox], height: 64, width: 64}}\n" + devices
    (found,) = verdict(never + "parallel: {device_map: {vae: [0, 1]}}")
    assert found[:3] == ("DC461", "error", "parallel.device_map.vae")
    assert "AsymmetricAutoencoderKL" in found.message
    assert "`transformer`" in found.hint
    assert verdict(FLUX + TWO_H100 + "parallel: {device_map: {transformer: [0, 1]}}") == []


@pytest.mark.parametrize("value", ["auto", "sequential", "cuda", "cuda:0", "balanced_low_0"])
def test_case_006_auto_at_the_level_of_the_pipeline(value: str, verdict: Verdict) -> None:
    """huggingface/diffusers#6240: the legal values are named; nothing moves a pipeline after its map."""
    (found,) = verdict(FLUX + TWO_H100 + f"parallel: {{device_map: '{value}'}}")
    assert found[:3] == ("DC204", "error", "parallel.device_map")
    assert "`balanced` or a mapping" in found.message
    assert "`balanced`" in found.hint


def test_case_008_a_cut_transformer_with_a_controlnet(verdict: Verdict) -> None:
    """huggingface/diffusers#11247: residuals in a list do not follow the blocks; an added ControlNet is not yet."""
    text = FLUX + TWO_H100 + "components: {controlnet: {id: a/b}}\nparallel: {device_map: {transformer: [0, 1]}}"
    found = verdict(text)
    assert [finding[:3] for finding in found] == [("DC400", "error", "components.controlnet.id")]


def test_case_009_qwen_image_on_cards_of_24_gb(compiled: Compile, verdict: Verdict) -> None:
    """QwenLM/Qwen-Image#11: 53.7 GiB do not fit two cards of 24; on three they do, in equal halves of 30 blocks."""
    two = QWEN + "devices: {kind: cuda, per_node: 2, memory: 24GiB}\nparallel: {device_map: {transformer: [0, 1]}}"
    (found,) = verdict(two)
    assert found[:3] == ("DC501", "error", "devices.memory")
    assert "on 3 devices of this size, the fewest" in found.hint
    three = QWEN + "devices: {kind: cuda, per_node: 3, memory: 24GiB}\n"
    three += "parallel: {device_map: {transformer: [1, 2], text_encoder: 0, vae: 0}}"
    assert verdict(three) == []
    plan = plan_of(compiled, three)
    devices = [round(sum(parts.values()), 1) for parts in held(plan)]
    assert devices == [15.7, 19.0, 19.0]
    blocks = plan["program"]["components"]["transformer"]["blocks"]
    numbers = [blocks[f"transformer_blocks.{i}"] for i in range(60)]
    assert numbers == [1] * 30 + [2] * 30


def test_case_010_a_map_of_components(compiled: Compile, verdict: Verdict) -> None:
    """QwenLM/Qwen-Image-Layered#22: encode on 1, denoise and decode on 0: legal, and every component has its place.

    The transfers are kept by `tests/distributed/test_strategies.py::test_device_map`.
    """
    text = QWEN + "devices: {gpu: a100-sxm-80gb, per_node: 2}\n"
    text += "parallel: {device_map: {transformer: 0, text_encoder: 1, vae: 0}}"
    assert verdict(text) == []
    plan = plan_of(compiled, text)
    assert plan["strategy"] == "device_map"
    assert held(plan) == [{"transformer": 38.05, "vae": 0.24}, {"text_encoder": 15.45}]


def test_case_012_many_devices_and_no_plan(compiled: Compile, verdict: Verdict) -> None:
    """vipshop/cache-dit#464: without a plan one device works and the rest is said to be idle."""
    text = QWEN + "devices: {gpu: h100-sxm-80gb, per_node: 8}"
    (found,) = verdict(text)
    assert found[:3] == ("DC408", "warning", "devices")
    assert "`data: 8`" in found.hint
    plan = plan_of(compiled, text)
    assert plan["strategy"] == "single"
    assert plan["program"]["device_kind"] == "cuda"
    assert set(held(plan)[0]) == set(plan["components"])


def test_case_013_the_schedulers_step_under_a_map(compiled: Compile, verdict: Verdict) -> None:
    """vipshop/cache-dit#255: an adapter and a map are legal, and the denoiser's output comes back to the latents.

    `tests/distributed/test_strategies.py::test_device_map` runs a denoiser on another device than the pipeline's.
    """
    text = FLUX.replace("bfloat16}", "bfloat16, adapters: [{path: distill.safetensors}]}") + TWO_H100
    assert verdict(text + "parallel: {device_map: {transformer: 1, text_encoder_2: 0}}") == []
    program = plan_of(compiled, text + "parallel: {device_map: {transformer: 1, text_encoder_2: 0}}")["program"]
    assert program["pipeline"]["adapters"][0]["component"] == "transformer"
    assert program["components"]["transformer"]["device"] == 1


def test_case_014_a_card_filled_exactly(verdict: Verdict) -> None:
    """huggingface/accelerate#473: weights, activations and the reserve have to fit together, not weights alone."""
    assert verdict(FLUX + TWO_H100 + "parallel: {device_map: sequential}")[0].code == "DC204"
    tight = FLUX + "devices: {kind: cuda, per_node: 3, memory: 24GiB, reserve: 1GiB}\nparallel: {device_map: balanced}"
    assert [found.code for found in verdict(tight)] == ["DC503"]
    (found,) = verdict(tight.replace("1GiB", "2GiB"))
    assert found[:2] == ("DC501", "error")
    assert "24.00 GiB, 2.00 GiB of it in reserve" in found.message


def test_case_016_memory_is_not_pooled(verdict: Verdict) -> None:
    """black-forest-labs/flux2#7: neither the transformer nor the encoder fits a card whole, and both can be cut."""
    (found,) = verdict(FLUX2 + "devices: {kind: cuda, per_node: 8, memory: 40GiB}")
    assert found[:3] == ("DC501", "error", "devices.memory")
    assert "`transformer` needs 60.02 GiB" in found.message
    assert "`text_encoder` needs 44.72 GiB" in found.message
    assert "`tensor: 8` leaves 8.83 GiB of `transformer` a device" in found.hint
    assert "text_encoder: [0, 1, 2]" in found.hint


@pytest.mark.parametrize(("text", "memory", "devices"), [(FLUX2, "39GiB", 4), (WAN22, "24GiB", 2), (FLUX, "8GiB", 2)])
def test_case_017_none_vanishes(text: str, memory: str, devices: int, verdict: Verdict) -> None:
    """Found with the library's own `balanced`, which loses one of two that do not fit: here both are named.

    That every component is placed exactly once is a property of all plans
    (`tests/property/test_plan_properties.py::test_balanced_places_every_component_once`).
    """
    machine = f"devices: {{kind: cuda, per_node: {devices}, memory: {memory}}}\nparallel: {{device_map: balanced}}"
    (found,) = verdict(text + machine)
    assert found[:2] == ("DC501", "error")
    assert "needs" in found.message
    assert "which has" in found.message


def test_case_018_the_fourth_card_of_the_box(compiled: Compile, verdict: Verdict) -> None:
    """ostris/ai-toolkit#277: `ids` reach the loader; no rank has a device outside the list.

    What a rank does with them: `tests/distributed/test_ranks.py::test_devices_go_by_local_rank_and_are_nobody_elses`.
    """
    from dcompile.cli.summary import summary_lines

    text = FLUX + "devices: {gpu: h100-sxm-80gb, ids: [3]}"
    assert verdict(text) == []
    plan = plan_of(compiled, text)
    assert plan["program"]["device_ids"] == [3]
    assert "  on the machine: device 0 is 3" in summary_lines(plan)


@pytest.mark.parametrize(
    ("written", "size"),
    [("24GiB", 25769803776), ("24GB", 24000000000), ("24gb", 24000000000), ("24 gib", 25769803776)],
)
def test_case_020_units_of_memory(written: str, size: int, compiled: Compile) -> None:
    """oobabooga/textgen#3763: sizes are bytes, never bits."""
    machine = f"devices: {{kind: cuda, per_node: 3, memory: {written}}}\n"
    plan = plan_of(compiled, FLUX + machine + "parallel: {device_map: {transformer: [0, 1], text_encoder_2: 2}}")
    assert plan["devices"][0]["memory_bytes"] == size


@pytest.mark.parametrize(("written", "said"), [("24G", "24GiB (25769803776 bytes) or 24GB"), ("24", "24GiB, 24GB")])
def test_case_020_units_that_are_refused(written: str, said: str, verdict: Verdict) -> None:
    """oobabooga/textgen#539: two readings, or none."""
    (found,) = verdict(FLUX + f"devices: {{kind: cuda, memory: {written}}}")
    assert found[:3] == ("DC208", "error", "devices.memory")
    assert said in found.message


def test_case_021_a_cut_model_and_offload(verdict: Verdict) -> None:
    """huggingface/diffusers#10300: two ways to place one component; the others can be offloaded."""
    text = (
        FLUX + TWO_H100 + "parallel: {device_map: {transformer: [0, 1]}, components: {transformer: {offload: model}}}"
    )
    (found,) = verdict(text)
    assert found[:3] == ("DC470", "error", "parallel.components.transformer.offload")
    assert "`text_encoder_2`" in found.hint
    assert verdict(text.replace("components: {transformer", "components: {text_encoder_2")) == []
