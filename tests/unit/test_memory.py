"""Peaks of activations: the data, its terms, and what they come to for known jobs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dcompile.driver import compile_recipe
from dcompile.facts.registry import MODELS, known_models, load_model, read_json
from dcompile.layout.shard import weight_bytes
from dcompile.memory.activations import (
    FILE,
    Call,
    Clip,
    Texts,
    call_peak,
    call_terms,
    clip_peak,
    clip_terms,
    is_measured,
    text_peak,
    text_terms,
)
from dcompile.memory.peaks import AFTERWARDS, clip_on, samples_of_call
from dcompile.memory.unmeasured import counted_call_bytes

MIB = 2**20
FLUX = load_model("black-forest-labs/FLUX.1-dev")
TRANSFORMER, VAE = FLUX.components["transformer"], FLUX.components["vae"]
ENTRIES = read_json(MODELS / FILE)["entries"]


def test_everything_that_is_known_was_measured() -> None:
    """Every component of every known model in each way that it can run: none is counted."""
    for model_id in known_models():
        model = load_model(model_id)
        for name, component in model.components.items():
            modes = ["text", "text_float32"]
            if name == "vae":
                modes = ["decode", "decode_tiled", "encode", "encode_tiled"]
            elif name in AFTERWARDS:
                modes = []
            elif name in model.denoisers:
                modes = ["whole", *["tensor"] * bool(component.tensor_plan), *["context"] * component.context_plan]
            missing = [mode for mode in modes if not is_measured(component, mode)]
            assert not missing, (model_id, name, missing)


def test_every_coefficient_belongs_to_a_term() -> None:
    """A coefficient without a term would count for nothing, in silence."""
    terms = {
        "error",
        "float32",
        "cpu",
        *call_terms(Call(1, 1, 1)),
        *call_terms(Call(1, 1, 1, tensor=2)),
        *clip_terms(VAE, Clip(1, 1, 1, 1)),
        *clip_terms(VAE, Clip(1, 1, 1, 1), tiled=True),
        *text_terms(FLUX.components["text_encoder_2"], Texts(1, 1)),
    }
    terms |= call_terms(Call(1, 1, 1, ring=2)).keys()
    for entry in ENTRIES:
        for mode, found in entry["modes"].items():
            assert found.keys() <= terms, (entry["of"], mode)
            assert all(value > 0 for name, value in found.items() if name != "error")


def test_fits_are_close() -> None:
    """Where a fit is worse than this, the terms are the wrong ones."""
    worst = {(entry["of"], mode): found["error"] for entry in ENTRIES for mode, found in entry["modes"].items()}
    assert max(worst.values()) < 0.25, sorted(worst.items(), key=lambda item: -item[1])[:5]


def test_a_split_sequence_and_split_heads_take_less() -> None:
    """Of FLUX.1 at 1024x1024: Ulysses halves what it splits, tensor only what goes with the heads."""
    whole, _ = call_peak(TRANSFORMER, Call(1, 4096, 512), "bfloat16")
    assert 400 * MIB < whole < 550 * MIB
    ulysses, _ = call_peak(TRANSFORMER, Call(1, 4096, 512, ulysses=4), "bfloat16")
    ring, _ = call_peak(TRANSFORMER, Call(1, 4096, 512, ring=4), "bfloat16")
    tensor, _ = call_peak(TRANSFORMER, Call(1, 4096, 512, tensor=4), "bfloat16")
    assert whole / 5 < ulysses < whole / 2.5
    assert ulysses < ring < whole
    assert whole / 4 < tensor < whole


def test_float32_takes_more() -> None:
    """Not twice as much for a transformer: some of its tensors are float32 anyway."""
    call = Call(1, 4096, 512)
    half, single = (call_peak(TRANSFORMER, call, dtype)[0] for dtype in ("float16", "float32"))
    assert 1.5 * half < single <= 2 * half
    size = Clip(1, 2048, 2048, 0)
    half, single = (clip_peak(VAE, size, dtype, "decode")[0] for dtype in ("bfloat16", "float32"))
    assert single == 2 * half


def test_another_config_of_a_class_scales_by_width_with_a_wider_margin() -> None:
    """Half the heads, half the peak."""
    call = Call(1, 4096, 512)
    half = replace(TRANSFORMER, config={**TRANSFORMER.config, "num_attention_heads": 12})
    assert call_peak(half, call, "bfloat16")[0] == pytest.approx(call_peak(TRANSFORMER, call, "bfloat16")[0] / 2)
    assert call_peak(half, call, "bfloat16")[1] > call_peak(TRANSFORMER, call, "bfloat16")[1] + 0.1


def test_a_class_that_was_not_measured_is_counted() -> None:
    """With a quarter as margin; one without an entry has no measured peak."""
    unknown = replace(TRANSFORMER, class_name="NoSuchTransformer2DModel")
    call = Call(1, 4096, 512)
    assert not is_measured(unknown, "whole")
    assert is_measured(TRANSFORMER, "context")
    with pytest.raises(KeyError):
        call_peak(unknown, call, "bfloat16")
    assert counted_call_bytes(unknown, call, 2) == 4608 * 3072 * 12 * 2


def test_what_was_not_measured_on_the_device_widens_the_margin(tmp_path: Path) -> None:
    """FLUX.1's decode on an accelerator: storages, exactly fitted, and the work space of convolutions on top."""
    file = tmp_path / "recipe.yaml"
    file.write_text(f"version: 1\nmodel: {{id: {FLUX.id}}}\ndevices: {{gpu: l20}}\nrun: {{prompts: [a fox]}}\n")
    plan = compile_recipe(file).plan
    assert plan is not None
    (load,) = plan.loads
    assert load.peak == "vae"
    storages = 1024 * 1024 * 1536.5
    assert load.activation_bytes == pytest.approx(storages * 1.59, abs=1)
    assert load.activation_bytes - load.margin_bytes == pytest.approx(storages, abs=2)


def test_an_autoencoder_whose_workspace_was_not_measured_has_a_wider_margin() -> None:
    vae = load_model("hunyuanvideo-community/HunyuanVideo").components["vae"]
    made = Clip(1, 544, 960, 53)
    storages, error = clip_peak(vae, made, "bfloat16", "decode")
    peak = clip_on("cuda", vae, made, "bfloat16", "decode")
    assert peak.peak_bytes == pytest.approx(storages * 1.2, abs=1)
    assert peak.peak_bytes - peak.margin_bytes == pytest.approx(storages * (0.75 - error), abs=2)


ALLOCATED = {
    # what torch's allocator had given out beside the weights, GiB
    ("Qwen/Qwen-Image", "float16", "decode", 512, 512): 1.274,
    ("Qwen/Qwen-Image", "float16", "decode", 1248, 832): 4.331,
    ("Qwen/Qwen-Image", "float16", "decode", 1024, 1024): 4.369,
    ("Qwen/Qwen-Image", "float16", "decode", 1920, 1088): 8.468,
    ("Qwen/Qwen-Image", "float16", "decode", 2048, 2048): 16.754,
    ("Qwen/Qwen-Image", "float16", "encode", 512, 512): 0.900,
    ("Qwen/Qwen-Image", "float16", "encode", 1024, 1024): 2.879,
    ("Qwen/Qwen-Image", "float16", "encode", 1536, 1536): 6.179,
    ("black-forest-labs/FLUX.1-dev", "bfloat16", "decode", 2048, 2048): 40.96 - 31.268,
}
"""An RTX 4090 (invoke-ai/InvokeAI#9305) and an L20 with all of FLUX.1-dev on it (vipshop/cache-dit#645)."""


@pytest.mark.parametrize(("model", "dtype", "mode", "height_px", "width_px"), ALLOCATED)
def test_peaks_of_autoencoders_beside_those_of_gpus(
    model: str, dtype: str, mode: str, height_px: int, width_px: int
) -> None:
    vae = load_model(model).components["vae"]
    weights = weight_bytes(vae, 2)
    peak = clip_on("cuda", vae, Clip(1, height_px, width_px, 0), dtype, mode).peak_bytes
    assert (weights + peak) / 2**30 == pytest.approx(ALLOCATED[model, dtype, mode, height_px, width_px], rel=0.01)


@pytest.mark.parametrize(
    ("model", "dtype", "memory_gib", "fits"),
    [
        ("stable-diffusion-v1-5/stable-diffusion-v1-5", "float16", 8, True),
        ("stabilityai/stable-diffusion-xl-base-1.0", "float32", 10, False),
        ("stabilityai/stable-diffusion-xl-base-1.0", "float32", 16, True),
    ],
)
def test_encodes_that_ran_and_that_ran_out_of_memory(model: str, dtype: str, memory_gib: int, fits: bool) -> None:
    """At 2048x2048 pixels: huggingface/diffusers@b47fa05, docs/source/en/hybrid_inference/vae_encode.md."""
    vae = load_model(model).components["vae"]
    weights = weight_bytes(vae, 4 if dtype == "float32" else 2)
    peak = clip_on("cuda", vae, Clip(1, 2048, 2048, 0), dtype, "encode")
    assert (weights + peak.peak_bytes <= memory_gib * 2**30) is fits
    assert (weights + peak.peak_bytes - peak.margin_bytes <= memory_gib * 2**30) is fits


def test_depth_does_not_change_a_peak() -> None:
    """A pruned FLUX.1 has the same peak, and the same margin."""
    pruned = replace(TRANSFORMER, config={**TRANSFORMER.config, "num_layers": 8})
    call = Call(1, 4096, 512)
    assert call_peak(pruned, call, "bfloat16") == call_peak(TRANSFORMER, call, "bfloat16")


@pytest.mark.parametrize(
    ("run", "samples"),
    [("", 2), ("guidance: 1.0,", 1), ("guidance: 7.0,", 2), ("args: {guidance_scale: 1.0},", 1), ("batch: 3,", 6)],
)
def test_both_branches_in_one_call_are_two_samples(tmp_path: Path, run: str, samples: int) -> None:
    """SDXL joins the guided and the unguided branch; FLUX.1 calls its transformer twice."""
    file = tmp_path / "recipe.yaml"
    for model, expected in (
        ("stabilityai/stable-diffusion-xl-base-1.0", samples),
        (FLUX.id, 3 if "batch" in run else 1),
    ):
        file.write_text(f"version: 1\nmodel: {{id: {model}}}\nrun: {{{run} prompts: [a fox]}}\n", encoding="utf-8")
        recipe = compile_recipe(file).recipe
        assert recipe is not None
        assert samples_of_call(recipe, load_model(model), recipe.run.batch) == expected


def test_texts_of_one_length_and_of_any() -> None:
    """CLIP's text encoder takes 3 MiB for a prompt; the peak of T5 at 512 tokens is its scores and biases for every
    pair of them."""
    clip, t5 = FLUX.components["text_encoder"], FLUX.components["text_encoder_2"]
    assert text_peak(clip, Texts(2, 77), "bfloat16")[0] == 2 * text_peak(clip, Texts(1, 77), "bfloat16")[0]
    assert 2 * MIB < text_peak(clip, Texts(1, 77), "bfloat16")[0] < 4 * MIB
    short, long = (text_peak(t5, Texts(1, tokens), "bfloat16")[0] for tokens in (256, 512))
    assert 3 * short < long < 4 * short


@pytest.mark.parametrize("side", [512, 1024, 4096])
def test_tiles_bound_a_decode(side: int) -> None:
    """What is no larger than a tile, here of 1024 pixels, is not cut."""
    whole, tiled = (clip_peak(VAE, Clip(1, side, side, 0), "bfloat16", mode)[0] for mode in ("decode", "decode_tiled"))
    assert tiled == pytest.approx(whole, rel=0.02) if side <= 1024 else tiled < whole / 4


@pytest.mark.slow
def test_an_entry_is_what_the_installed_class_takes() -> None:
    """The generator again, on one model: the file is neither edited nor out of date."""
    measure = pytest.importorskip("dcompile.memory.measure", reason="needs torch and diffusers")
    entry = next(entry for entry in ENTRIES if entry["class"] == "AutoencoderKL")
    model_id, name = entry["of"].split(" ")
    model = load_model(model_id)
    assert measure.measure(model, name, model.components[name], "decode") == entry["modes"]["decode"]


@pytest.mark.parametrize(
    ("parallel", "held"),
    [
        ("{}", {0: 2 * 16 * (3072 + 3072 + 3072 + 12288)}),
        ("{device_map: {transformer: [0, 1], text_encoder_2: 1}}", {0: 2 * 16 * 6144, 1: 2 * 16 * 15360}),
        ("{tensor: 2}", {0: 0, 1: 0}),
    ],
)
def test_layers_of_an_adapter_lie_with_what_they_change(
    tmp_path: Path, compiled: Any, weights_file: Any, parallel: str, held: dict[int, int]
) -> None:
    """Rank 16 in bfloat16, beside the first and the last layer; merged, as under `tensor`, it takes nothing."""
    layers = {"transformer_blocks.0.attn.to_q": (3072, 3072), "single_transformer_blocks.37.proj_mlp": (3072, 12288)}
    shapes = {}
    for layer, (inputs, outputs) in layers.items():
        shapes[f"transformer.{layer}.lora_A.weight"] = (16, inputs)
        shapes[f"transformer.{layer}.lora_B.weight"] = (outputs, 16)
    weights_file(tmp_path / "style.safetensors", shapes)

    def weights(adapters: str) -> list[int]:
        plan = compiled(
            f"""
            version: 1
            model: {{id: {FLUX.id}{adapters}}}
            devices: {{gpu: h100-sxm-80gb, per_node: {len(held)}}}
            parallel: {parallel}
            run: {{prompts: [a fox]}}
            """
        ).plan_json
        assert plan is not None
        return [device["weight_bytes"] for device in plan["devices"]]

    without, with_layers = weights(""), weights(", adapters: [{path: style.safetensors}]")
    assert dict(enumerate(b - a for a, b in zip(without, with_layers, strict=True))) == held


def errors_of_fits() -> list[str]:
    """A row for each class: the largest error of each mode over its configurations, in percent."""
    modes = ("whole", "tensor", "context", "text", "decode", "decode_tiled", "encode", "encode_tiled")
    worst: dict[str, dict[str, float]] = {}
    for entry in ENTRIES:
        for mode, found in entry["modes"].items():
            own = worst.setdefault(entry["class"], {})
            own[mode] = max(own.get(mode, 0.0), 100 * found["error"])
    lines = [f"| class | {' | '.join(modes)} |", "|---" * (len(modes) + 1) + "|"]
    for name in sorted(worst):
        cells = (f"{worst[name][mode]:.1f} %" if mode in worst[name] else "" for mode in modes)
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return lines


def test_the_page_has_the_errors_of_the_fits() -> None:
    page = (Path(__file__).parents[2] / "compiler" / "docs" / "memory.md").read_text(encoding="utf-8")
    assert "\n".join(errors_of_fits()) in page
