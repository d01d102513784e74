"""Seconds: the work of real models, the curves of links, and that every constant has a source."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from dcompile.cli.summary import summary_lines
from dcompile.driver import compile_recipe
from dcompile.estimate.constants import constant, rates_of
from dcompile.estimate.links import MIB, Network, collective_seconds
from dcompile.estimate.unpack import Unpacking, unpack_work
from dcompile.estimate.work import Tokens, decode_flops, denoiser_work
from dcompile.facts import registry
from dcompile.facts.links import known_links, known_node_links
from dcompile.facts.registry import HARDWARE, PACKAGE, load_hardware, load_model
from dcompile.layout.nodes import Group
from dcompile.layout.stored import Storage, quantized_matrices

LINKS = json.loads((HARDWARE.parent / "links.json").read_text(encoding="utf-8"))
SPEEDS = json.loads((HARDWARE.parent / "speeds.json").read_text(encoding="utf-8"))

RECIPE = """
version: 1
model: {id: black-forest-labs/FLUX.1-dev, dtype: bfloat16}
devices: {gpu: h100-sxm-80gb, per_node: 8}
run: {prompts: [a fox], steps: 28, height: 1024, width: 1024, seed: 1}
"""


def planned(folder: Path, *overrides: str, text: str = RECIPE) -> dict[str, Any]:
    file = folder / "recipe.yaml"
    file.write_text(text, encoding="utf-8")
    compiled = compile_recipe(file, overrides)
    assert compiled.plan_json is not None, compiled.diagnostics
    return compiled.plan_json


def seconds(folder: Path, parallel: str, *overrides: str) -> dict[str, float]:
    return planned(folder, f"parallel={parallel}", *overrides)["estimate"]


@pytest.mark.parametrize(
    ("model", "image", "text", "tflop", "attention_share"),
    [
        # huggingface/diffusers shapes; published as 74 TFLOP a step, 20 % of it attention (xdit-project/xDiT's runs).
        ("black-forest-labs/FLUX.1-dev", 4096, 512, 74, 0.20),
        ("Wan-AI/Wan2.1-T2V-14B-Diffusers", 32760, 512, 1680, 0.53),
        ("hunyuanvideo-community/HunyuanVideo", 118800, 256, 12100, 0.87),
        # The UNet's well-known 3.0 trillion multiply-adds, convolutions and cross attention included.
        ("stabilityai/stable-diffusion-xl-base-1.0", 16384, 77, 6.0, None),
    ],
)
def test_work_is_that_of_the_published_models(
    model: str, image: int, text: int, tflop: float, attention_share: float | None
) -> None:
    facts = registry.load_model(model)
    work = denoiser_work(facts.components[facts.denoisers[0]], Tokens(image, text, image, text))
    both = work.matmul_flops + work.attention_flops + work.convolution_flops
    assert both / 1e12 == pytest.approx(tflop, rel=0.15)
    if attention_share is not None:
        assert work.attention_flops / both == pytest.approx(attention_share, abs=0.02)


def test_work_of_a_rank_is_its_share() -> None:
    component = registry.load_model("black-forest-labs/FLUX.1-dev").components["transformer"]
    one = denoiser_work(component, Tokens(4096, 512, 4096, 512))
    quarter = denoiser_work(component, Tokens(4096, 512, 1024, 128))
    assert quarter.attention_flops == pytest.approx(one.attention_flops / 4)
    assert quarter.matmul_flops == pytest.approx(one.matmul_flops / 4, rel=0.01)
    tensor = denoiser_work(component, Tokens(4096, 512, 4096, 512), tensor=4)
    assert tensor.attention_flops == pytest.approx(one.attention_flops / 4)
    # Only the modulation and the embeddings stay whole, and they see few tokens.
    assert one.matmul_flops / 4 < tensor.matmul_flops < one.matmul_flops / 3.8
    assert (tensor.residual_elements, tensor.inner_elements) == (one.residual_elements, one.inner_elements / 4)


def test_every_known_denoiser_and_decoder_works() -> None:
    for name in registry.known_models():
        model = registry.load_model(name)
        for denoiser in model.denoisers:
            work = denoiser_work(model.components[denoiser], Tokens(4096, 128, 4096, 128))
            assert work.matmul_flops > 1e11, name
            assert work.attention_flops > 0, name
            assert work.blocks > 9, name
        assert decode_flops(model.components["vae"], 512, 512, 1, 1) > 1e11, name


@pytest.mark.parametrize(
    ("gpu", "side_px", "seconds"),
    [("rtx-4090", 512, 0.031), ("rtx-4090", 1024, 0.148), ("rtx-3090", 512, 0.062), ("rtx-3090", 1024, 0.253)],
)
def test_decodes_beside_published_ones(gpu: str, side_px: int, seconds: float) -> None:
    """SD 1.5 in float16, within their spread: huggingface/diffusers@fb28dab, hybrid_inference/vae_decode.md."""
    vae = load_model("stable-diffusion-v1-5/stable-diffusion-v1-5").components["vae"]
    rates = rates_of(load_hardware(gpu), "float16")
    assert rates is not None
    estimated = decode_flops(vae, side_px, side_px, 1, 1) / (rates.matmul_flops * constant("convolution"))
    assert estimated == pytest.approx(seconds, rel=0.2)


def test_decoding_grows_with_the_picture_and_the_clip() -> None:
    vae = registry.load_model("Wan-AI/Wan2.1-T2V-14B-Diffusers").components["vae"]
    one = decode_flops(vae, 480, 832, 1, 1)
    assert decode_flops(vae, 960, 832, 1, 1) == pytest.approx(2 * one)
    assert 40 * one < decode_flops(vae, 480, 832, 81, 21) < 81 * one


@pytest.mark.parametrize("link", [name for name, entry in LINKS["links"].items() if "curves" in entry])
def test_a_curve_goes_through_its_measured_points(link: str) -> None:
    for operation, curves in LINKS["links"][link]["curves"].items():
        for ranks, curve in ((int(ranks), curve) for ranks, curve in curves.items()):
            factor = (2 if operation == "all_reduce" else 1) * (ranks - 1) / ranks
            for size, speed in zip(LINKS["sizes_mib"], curve["bus_gb_per_second"], strict=True):
                expected = factor * size * MIB / (speed * 1e9)
                assert collective_seconds(operation, ranks, size * MIB, link) == pytest.approx(expected)


@pytest.mark.parametrize("link", [*known_links(), "1GB/s", "64GiB/s", "400Gbit/s"])
@pytest.mark.parametrize("operation", ["all_reduce", "all_gather", "all_to_all"])
def test_more_bytes_and_another_node_never_take_less(link: str, operation: str) -> None:
    for ranks in (2, 3, 4, 6, 8, 16):
        times = [collective_seconds(operation, ranks, 2**power, link) for power in range(4, 34)]
        assert times == sorted(times)
        assert times[0] > 0
        for node_link in (*known_node_links(), "25GB/s"):
            if ranks % 2 == 0:
                network = Network(link, node_link)
                assert collective_seconds(operation, Group(ranks, ranks // 2, ranks // 2), 2**26, network) >= times[22]
                alone = collective_seconds(operation, Group(ranks, 1, 1), 2**26, network)
                assert alone >= collective_seconds(operation, 2, 2**26, link)
    assert collective_seconds(operation, 1, 2**20, link) == 0


def test_between_two_points_the_time_is_their_geometric_mean() -> None:
    low, high = (collective_seconds("all_to_all", 4, size * MIB, "nvlink4") for size in (16, 64))
    assert collective_seconds("all_to_all", 4, 32 * MIB, "nvlink4") == pytest.approx((low * high) ** 0.5)


def test_every_number_has_a_source() -> None:
    assert set(SPEEDS["devices"]) == set(registry.known_hardware())
    entries = [part for device in SPEEDS["devices"].values() for part in device.values()]
    for value in SPEEDS["constants"].values():
        entries += value.values() if isinstance(value, dict) else [value]
    for number, source in entries:
        assert number > 0
        assert len(source) > 10
    devices = json.loads(HARDWARE.read_text(encoding="utf-8"))["devices"]
    for device in devices.values():
        for key, (value, source) in ((key, pair) for key, pair in device.items() if key not in ("kind", "link")):
            assert re.fullmatch(r"sm\d+|gfx\d+", value) if key == "architecture" else value > 0
            assert len(source) > 10
    for entry in (*LINKS["links"].values(), *LINKS["node_links"].values()):
        assert len(entry["source"]) > 10
    for name in registry.known_hardware():
        assert registry.load_hardware(name).link in known_links()


def test_no_constant_is_unused() -> None:
    code = "".join(file.read_text(encoding="utf-8") for file in (PACKAGE / "estimate").glob("*.py"))
    assert [name for name in SPEEDS["constants"] if f'constant("{name}"' not in code] == []


def test_the_job_is_load_and_calls(tmp_path: Path) -> None:
    one = seconds(tmp_path, "{}", "devices.per_node=1")
    call = one["encode_seconds"] + 28 * one["step_seconds"] + one["decode_seconds"]
    assert one["total_seconds"] == pytest.approx(one["load_seconds"] + call)
    prompts = "run.prompts=[a, b, c, d, e, f, g, h, i]"
    eight = seconds(tmp_path, "{data: 8}", prompts)
    assert eight["total_seconds"] == pytest.approx(one["load_seconds"] + 2 * call)
    assert eight["step_seconds"] == one["step_seconds"]
    assert seconds(tmp_path, "{data: 8}", "run.batch=2", prompts)["step_seconds"] > 1.7 * one["step_seconds"]


def test_guidance_in_two_branches_doubles_a_step(tmp_path: Path) -> None:
    one = seconds(tmp_path, "{}")["step_seconds"]
    assert seconds(tmp_path, "{}", "run.true_cfg=4.0")["step_seconds"] == pytest.approx(2 * one)
    assert seconds(tmp_path, "{}", "run.true_cfg=1.0")["step_seconds"] == one


def test_a_slow_link_makes_tensor_slower_than_one_device(tmp_path: Path) -> None:
    # Published: two L20 won by tensor parallel (vipshop/cache-dit); eight cards without peer access do not.
    flux = "devices={gpu: l20, per_node: 8, link: LINK}"
    one = seconds(tmp_path, "{}", flux.replace("LINK", "pcie4"))["step_seconds"]
    assert seconds(tmp_path, "{tensor: 2}", flux.replace("LINK", "pcie4-peer"))["step_seconds"] < one
    assert seconds(tmp_path, "{tensor: 8}", flux.replace("LINK", "pcie4"))["step_seconds"] > one


def test_a_cut_denoiser_takes_no_less_time_than_a_whole_one(tmp_path: Path) -> None:
    whole, cut = seconds(tmp_path, "{}"), seconds(tmp_path, "{device_map: {transformer: [0, 1]}}")
    assert whole["step_seconds"] < cut["step_seconds"] < 1.05 * whole["step_seconds"]
    assert cut["communication_seconds"] > 0


def test_rows_of_another_size_count_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text('{"prompt": "a"}\n{"prompt": "b", "height": 2048, "width": 2048}\n')
    small, large = (seconds(tmp_path, "{}", f"run.height={s}", f"run.width={s}") for s in (1024, 2048))
    both = seconds(tmp_path, "{}", "run.prompts=p.jsonl")
    together = small["total_seconds"] + large["total_seconds"] - small["load_seconds"]
    assert both["total_seconds"] == pytest.approx(together)


@pytest.mark.parametrize("devices", ["{kind: cpu}", "{kind: cuda, memory: 80GiB}"])
def test_what_is_not_known_is_not_estimated(tmp_path: Path, devices: str) -> None:
    plan = planned(tmp_path, f"devices={devices}")
    assert "estimate" not in plan
    assert not any("estimate:" in line for line in summary_lines(plan))


def test_a_mixed_box_goes_by_its_slowest_device(tmp_path: Path) -> None:
    plan = "{context: {ulysses: 2}}"
    mixed = seconds(tmp_path, plan, "devices={gpus: [h100-sxm-80gb, l20], link: pcie4, reserve: 1GiB}", "run.width=512")
    slow = seconds(tmp_path, plan, "devices={gpu: l20, per_node: 2, link: pcie4}", "run.width=512")
    assert mixed["step_seconds"] == pytest.approx(slow["step_seconds"])


def test_the_summary_says_that_it_is_an_estimate(tmp_path: Path) -> None:
    plan = planned(tmp_path, "parallel={tensor: 8}")
    assert plan["estimate"]["is_estimate"] is True
    line = next(line for line in summary_lines(plan) if "estimate:" in line)
    assert "a step" in line
    assert "exchange" in line
    assert "to load" in line


QUANTIZED = """version: 1
model: {id: black-forest-labs/FLUX.1-dev, dtype: bfloat16}
devices: {gpu: h100-sxm-80gb}
components: {transformer: {%s}}
run: {prompts: [a], height: 1024, width: 1024, steps: 50}
"""


def test_quantized_weights_are_unpacked_in_every_step(tmp_path: Path) -> None:
    """An eager step with weights of eight bits is longer, by what passes over memory and what the host starts."""
    file, seconds = tmp_path / "job.yaml", {}
    for kind in ("", "torchao int8wo", "torchao float8wo", "bitsandbytes nf4", "bitsandbytes int8"):
        method, _, name = kind.partition(" ")
        quantize = f"quantize: {{method: {method}, type: {name}}}" if kind else ""
        file.write_text(QUANTIZED % quantize, encoding="utf-8")
        plan = compile_recipe(file).plan_json
        assert plan is not None
        seconds[name] = plan["estimate"]["step_seconds"]
    plain = seconds.pop("")
    assert sorted(seconds, key=lambda name: seconds[name]) == ["nf4", "int8wo", "float8wo", "int8"]
    # 12 seconds in bfloat16, 15 of both torchao kinds, 12 and 27 of bitsandbytes (huggingface/blog@0b53cb1).
    for name, ratio in (("int8wo", 15 / 12), ("float8wo", 15 / 12), ("nf4", 1), ("int8", 27 / 12)):
        assert seconds[name] / plain == pytest.approx(ratio, rel=0.11)


def test_unpacking_does_not_depend_on_the_samples() -> None:
    facts = registry.load_model("black-forest-labs/FLUX.1-dev").components["transformer"]
    assert unpack_work(facts, Storage("bfloat16")) == Unpacking()
    matrices, numbers = quantized_matrices(facts, Storage("bfloat16", "torchao", "int8wo"))
    found = unpack_work(facts, Storage("bfloat16", "torchao", "int8wo"))
    assert found.passed_bytes == 3 * numbers
    assert found.host_seconds == pytest.approx(matrices * constant("unpack_host_seconds", "int8wo"))


def test_float32_multiplies_without_tensor_cores_and_convolves_in_tf32() -> None:
    """torch's defaults; TF32 is at half the rate of bfloat16, and attention takes three products of it for one."""
    device = load_hardware("a100-sxm-80gb")
    half, wide = rates_of(device), rates_of(device, "float32")
    assert half is not None
    assert wide is not None
    assert wide.matmul_flops == pytest.approx(19.5e12 * 0.77)
    assert wide.convolution_flops == pytest.approx(half.matmul_flops / 2)
    assert wide.attention_flops == pytest.approx(half.attention_flops / 6, rel=2e-3)
    assert half.convolution_flops == half.matmul_flops
    amd = rates_of(load_hardware("mi300x"), "float32")
    assert amd is not None
    assert amd.matmul_flops == amd.attention_flops == amd.convolution_flops == pytest.approx(163.4e12 * 0.77)
    assert rates_of(device, "float64") is None


@pytest.mark.parametrize("name", registry.known_hardware())
def test_float32_is_slower_everywhere(name: str) -> None:
    half, wide = rates_of(load_hardware(name)), rates_of(load_hardware(name), "float32")
    assert half is not None
    assert wide is not None
    assert wide.matmul_flops < half.matmul_flops
    assert wide.attention_flops < half.attention_flops
    assert wide.convolution_flops < half.convolution_flops


def test_float32_has_an_estimate(tmp_path: Path) -> None:
    """FLUX.1 takes 74 TFLOP a step, most of it products: 19.5 nominal TFLOP/s against 312."""
    on = "devices={gpu: a100-sxm-80gb}"
    half, wide = (seconds(tmp_path, "{}", on, f"model.dtype={dtype}") for dtype in ("bfloat16", "float32"))
    assert 9 < wide["step_seconds"] / half["step_seconds"] < 14
    # The autoencoder in float32 alone, as Wan's is loaded by its examples, takes twice as long; the steps do not.
    model = ("model={id: Wan-AI/Wan2.1-T2V-1.3B-Diffusers, dtype: bfloat16}", "run={prompts: [a], seed: 1}")
    half, mixed = (
        seconds(tmp_path, "{}", on, *model, f"components={{vae: {own}}}") for own in ("{}", "{dtype: float32}")
    )
    assert mixed["decode_seconds"] == pytest.approx(2 * half["decode_seconds"], rel=1e-4)
    assert mixed["step_seconds"] == half["step_seconds"]


def test_convolutions_of_a_unet_are_apart() -> None:
    unet = load_model("stabilityai/stable-diffusion-xl-base-1.0").components["unet"]
    work = denoiser_work(unet, Tokens(16384, 77, 16384, 77))
    assert 0.3 < work.convolution_flops / work.matmul_flops < 1
