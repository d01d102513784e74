"""Published runs that fitted, and that did not: the verdict has to be theirs."""

from __future__ import annotations

from pathlib import Path

import pytest
from dcompile.core.diagnostics import Severity
from dcompile.driver import compile_recipe

FLUX, SCHNELL = "black-forest-labs/FLUX.1-dev", "black-forest-labs/FLUX.1-schnell"
HUNYUAN, WAN14 = "hunyuanvideo-community/HunyuanVideo", "Wan-AI/Wan2.1-T2V-14B-Diffusers"
SDXL, QWEN = "stabilityai/stable-diffusion-xl-base-1.0", "Qwen/Qwen-Image"
SQUARE = "height: {0}, width: {0}"

FITTED = {
    "xDiT, one H100": (FLUX, "h100-sxm-80gb, per_node: 1", "{}", SQUARE.format(1024)),
    "xDiT, four H100 at ulysses 4": (
        FLUX,
        "h100-sxm-80gb, per_node: 4",
        "{context: {ulysses: 4}}",
        SQUARE.format(1024),
    ),
    "xDiT, eight A100 at 2048": (SCHNELL, "a100-sxm-80gb, per_node: 8", "{context: {ulysses: 8}}", SQUARE.format(2048)),
    "cache-dit, one L20": (FLUX, "l20, per_node: 1", "{}", SQUARE.format(1024)),
    "cache-dit, two L20 at tensor 2": (FLUX, "l20, per_node: 2", "{tensor: 2}", SQUARE.format(1024)),
    "cache-dit, four L20 at tensor 4": (FLUX, "l20, per_node: 4", "{tensor: 4}", SQUARE.format(1024)),
    "DistriFusion, one A100 at 3840": (SDXL, "a100-sxm-80gb, per_node: 1", "{}", SQUARE.format(3840)),
    "one H100, 480p": (WAN14, "h100-sxm-80gb, per_node: 1", "{}", "height: 480, width: 832, frames: 81"),
    "diffusers#12900, 80 GB at 2048": (QWEN, "h100-sxm-80gb, per_node: 1", "{}", SQUARE.format(2048)),
}
RAN_OUT = {
    "xDiT and SGLang, one RTX 4090": (WAN14, "rtx-4090, per_node: 1", "{}", "height: 480, width: 832, frames: 81"),
    "xDiT, 960x544x53 on 48 GB": (HUNYUAN, "l40, per_node: 1", "{}", "height: 544, width: 960, frames: 53"),
    "vllm-omni#919, 32 GB at tensor 4": (QWEN, "rtx-5090, per_node: 4", "{tensor: 4}", SQUARE.format(1024)),
    "vllm-omni#3875, 32 GB at tensor 8": (QWEN, "rtx-5090, per_node: 8", "{tensor: 8}", SQUARE.format(1024)),
    "xDiT#71, PixArt at 8192": (
        "PixArt-alpha/PixArt-Sigma-XL-2-1024-MS",
        "a100-sxm-80gb, per_node: 1",
        "{}",
        f"{SQUARE.format(8192)}, args: {{use_resolution_binning: false}}",
    ),
    "vllm-omni#2464, 40 GB at tensor 8": (
        "black-forest-labs/FLUX.2-dev",
        "a100-sxm-40gb, per_node: 8",
        "{tensor: 8}",
        SQUARE.format(1024),
    ),
}


def codes(run: tuple[str, str, str, str], folder: Path) -> set[str]:
    model, devices, parallel, size = run
    file = folder / "recipe.yaml"
    file.write_text(
        f"version: 1\nmodel: {{id: {model}, dtype: bfloat16}}\ndevices: {{gpu: {devices}}}\nparallel: {parallel}\n"
        f"run: {{prompts: [a red fox], {size}}}\n",
        encoding="utf-8",
    )
    return {found.code for found in compile_recipe(file).diagnostics if found.severity is Severity.ERROR}


@pytest.mark.parametrize("run", FITTED)
def test_what_ran_fits(run: str, tmp_path: Path) -> None:
    assert codes(FITTED[run], tmp_path) == set()


@pytest.mark.parametrize("run", RAN_OUT)
def test_what_ran_out_of_memory_does_not_fit(run: str, tmp_path: Path) -> None:
    assert codes(RAN_OUT[run], tmp_path) == {"DC501"}


H100 = """version: 1
model: {{id: black-forest-labs/FLUX.1-dev, dtype: bfloat16}}
devices: {{gpu: h100-sxm-80gb}}
components: {{transformer: {{{quantize}}}, text_encoder_2: {{{quantize}}}}}
parallel: {{components: {{{offload}}}}}
run: {{prompts: [a], height: 1024, width: 1024, steps: 50, guidance: 3.5}}
"""
RESERVED = {
    # quantized, offloaded: GiB that torch's allocator had reserved at most
    ("", True): 23.271,
    ("torchao int8wo", True): 12.189,
    ("torchao float8wo", True): 12.348,
    ("", False): 36.166,
    ("torchao int8wo", False): 21.482,
    ("torchao float8wo", False): 21.488,
    ("bitsandbytes nf4", False): 17.281,
    ("bitsandbytes int8", False): 24.432,
}
"""FLUX.1-dev on an H100: derekl35/diffusers-quantization-benchmarks@d42d489, as in huggingface/blog@0b53cb1."""


@pytest.mark.parametrize(("kind", "rests"), RESERVED)
def test_peaks_beside_those_of_an_accelerator(kind: str, rests: bool, tmp_path: Path) -> None:
    """Where the denoiser's call is the fullest moment, the estimate is near; after a decode torch keeps more."""
    method, _, name = kind.partition(" ")
    offload = [f"{one}: {{offload: model}}" for one in ("text_encoder", "text_encoder_2", "transformer", "vae")]
    text = H100.format(
        quantize=f"quantize: {{method: {method}, type: {name}}}" if kind else "",
        offload=", ".join(offload) if rests else "",
    )
    file = tmp_path / "recipe.yaml"
    file.write_text(text, encoding="utf-8")
    plan = compile_recipe(file).plan_json
    assert plan is not None
    (device,) = plan["devices"]
    estimate = max(phase["weight_bytes"] + phase["activation_bytes"] for phase in device["phases"]) / 2**30
    ratio = estimate / RESERVED[kind, rests]
    assert (0.95 if rests else 0.75) < ratio < 1
    row = f"| {name or 'bfloat16'} | {'all' if rests else 'nothing'} | {RESERVED[kind, rests]:.2f} | {estimate:.2f} |"
    assert row in (Path(__file__).parents[2] / "compiler/docs/memory.md").read_text(encoding="utf-8"), row
