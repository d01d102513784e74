"""What `kind: cpu` is estimated to take beside what torch's allocator gave out, for a small model of each class.

`python tests/benchmarks/test_cpu_peaks.py` writes the table into `compiler/docs/memory.md`; a few rows are a slow test.
An estimate goes the way of a user's job: the small configuration is measured on the meta device at the generator's
sizes and fitted, and the fit is asked for a size that is none of them. The real model runs in float32 with random
weights under the profiler, which sees every allocation, those inside operators too.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch and diffusers")
measure = pytest.importorskip("dcompile.memory.measure", reason="needs torch and diffusers")

from dcompile.facts.registry import load_model  # noqa: E402
from dcompile.facts.types import ComponentFacts  # noqa: E402
from dcompile.memory import activations, peaks  # noqa: E402
from dcompile.memory.activations import Call, Clip, Texts, shape_config  # noqa: E402
from dcompile.memory.measure_denoiser import denoiser_call  # noqa: E402
from dcompile.memory.measure_encoder import encoder_call  # noqa: E402
from dcompile.memory.measure_inputs import Shape  # noqa: E402
from dcompile.memory.measure_meta import Run, build, held_tensors  # noqa: E402
from dcompile.memory.measure_vae import vae_call  # noqa: E402
from torch.overrides import TorchFunctionMode  # noqa: E402
from torch.profiler import ProfilerActivity, profile  # noqa: E402

PAGE = Path(__file__).parents[2] / "compiler" / "docs" / "memory.md"
BEGIN, END = "<!-- measured by tests/benchmarks/test_cpu_peaks.py -->", "<!-- end -->"
MIB = 2**20
DTYPE = "float32"


@dataclass(frozen=True)
class Case:
    """One component of a known model, made small by `changes`, and the size of one call."""

    model: str
    name: str
    mode: str
    size: Shape | Clip | Texts
    changes: dict[str, Any]

    @property
    def component(self) -> ComponentFacts:
        known = load_model(self.model).components[self.name]
        return replace(known, config={**known.config, **self.changes})


BLOCKS = {"num_layers": 2, "num_single_layers": 2}
NARROW = {"num_heads": 8, "d_kv": 64, "d_model": 512, "d_ff": 1280, "num_layers": 2}
SMALL_LLM = {
    "num_hidden_layers": 4,
    "hidden_size": 512,
    "intermediate_size": 1536,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 4000,
}
TWO_LEVELS = {
    "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D"],
    "up_block_types": ["CrossAttnUpBlock2D", "UpBlock2D"],
    "block_out_channels": [64, 128],
    "layers_per_block": 1,
}
FOUR_LEVELS = {"block_out_channels": [32, 64, 128, 128]}
FLUX, WAN = "black-forest-labs/FLUX.1-dev", "Wan-AI/Wan2.1-T2V-1.3B-Diffusers"
QWEN, SANA = "Qwen/Qwen-Image", "Efficient-Large-Model/Sana_1600M_1024px_diffusers"
HUNYUAN, MOCHI = "hunyuanvideo-community/HunyuanVideo", "genmo/mochi-1-preview"
LUMINA, LTX = "Alpha-VLLM/Lumina-Image-2.0", "Lightricks/LTX-Video"
COG = "zai-org/CogVideoX-5b"
PICTURE, VIDEO = Shape(1, 40, 40, 128), Shape(1, 20, 20, 128, 5)
HEADS = {**BLOCKS, "num_attention_heads": 4}
CASES = {
    "flux": Case(FLUX, "transformer", "whole", PICTURE, HEADS),
    "flux2": Case("black-forest-labs/FLUX.2-dev", "transformer", "whole", PICTURE, HEADS),
    "chroma": Case("lodestones/Chroma1-HD", "transformer", "whole", PICTURE, HEADS),
    "qwen": Case(QWEN, "transformer", "whole", PICTURE, HEADS),
    "sd3": Case(
        "stabilityai/stable-diffusion-3.5-medium",
        "transformer",
        "whole",
        replace(PICTURE, text=333),
        {**HEADS, "num_attention_heads": 8, "caption_projection_dim": 512, "dual_attention_layers": [0]},
    ),
    "pixart": Case(
        "PixArt-alpha/PixArt-Sigma-XL-2-1024-MS",
        "transformer",
        "whole",
        PICTURE,
        {"num_layers": 2, "num_attention_heads": 6, "cross_attention_dim": 432},
    ),
    "sana": Case(
        SANA,
        "transformer",
        "whole",
        PICTURE,
        {
            "num_layers": 2,
            "num_attention_heads": 14,
            "num_cross_attention_heads": 4,
            "cross_attention_dim": 448,
            "cross_attention_head_dim": 112,
        },
    ),
    "lumina2": Case(
        LUMINA,
        "transformer",
        "whole",
        PICTURE,
        {
            "num_layers": 2,
            "num_attention_heads": 8,
            "num_kv_heads": 4,
            "hidden_size": 768,
            "axes_dim_rope": [32, 32, 32],
        },
    ),
    "z-image": Case(
        "Tongyi-MAI/Z-Image",
        "transformer",
        "whole",
        PICTURE,
        {"n_layers": 2, "n_refiner_layers": 1, "n_heads": 4, "n_kv_heads": 4, "dim": 512},
    ),
    "hunyuan-dit": Case(
        "Tencent-Hunyuan/HunyuanDiT-Diffusers", "transformer", "whole", replace(PICTURE, text=77), {"num_layers": 4}
    ),
    "wan": Case(WAN, "transformer", "whole", VIDEO, HEADS),
    "ltx": Case(LTX, "transformer", "whole", VIDEO, {**BLOCKS, "num_attention_heads": 8, "cross_attention_dim": 512}),
    "cogvideox": Case(
        COG, "transformer", "whole", replace(VIDEO, text=226), {"num_layers": 2, "num_attention_heads": 8}
    ),
    "hunyuan-video": Case(HUNYUAN, "transformer", "whole", VIDEO, {**HEADS, "num_refiner_layers": 1}),
    "mochi": Case(MOCHI, "transformer", "whole", VIDEO, {**HEADS, "pooled_projection_dim": 512}),
    "unet": Case(
        "stable-diffusion-v1-5/stable-diffusion-v1-5",
        "unet",
        "whole",
        Shape(2, 80, 64, 77),
        {**TWO_LEVELS, "attention_head_dim": 4},
    ),
    "auraflow": Case(
        "fal/AuraFlow-v0.3",
        "transformer",
        "whole",
        PICTURE,
        {"num_mmdit_layers": 2, "num_single_dit_layers": 2, "num_attention_heads": 3, "caption_projection_dim": 768},
    ),
    "cogview4": Case(
        "zai-org/CogView4-6B", "transformer", "whole", PICTURE, {"num_layers": 2, "num_attention_heads": 4}
    ),
    "hidream": Case(
        "HiDream-ai/HiDream-I1-Full",
        "transformer",
        "whole",
        PICTURE,
        {"num_layers": 1, "num_single_layers": 1, "num_attention_heads": 4, "llama_layers": [0, 1]},
    ),
    "kandinsky5": Case(
        "kandinskylab/Kandinsky-5.0-T2V-Lite-sft-5s-Diffusers",
        "transformer",
        "whole",
        VIDEO,
        {"num_text_blocks": 1, "num_visual_blocks": 2, "model_dim": 512, "ff_dim": 2048},
    ),
    # 5 frames of 400 tokens, and what the 16, 2 and 1 before them come to.
    "helios": Case(
        "BestWishYsh/Helios-Base", "transformer", "whole", replace(VIDEO, history=1000), {**HEADS, "ffn_dim": 2048}
    ),
    "ltx2": Case(
        "Lightricks/LTX-2",
        "transformer",
        "whole",
        VIDEO,
        {
            "num_layers": 2,
            "num_attention_heads": 4,
            "cross_attention_dim": 512,
            "audio_num_attention_heads": 4,
            "audio_cross_attention_dim": 256,
        },
    ),
    "chronoedit": Case(
        "nvidia/ChronoEdit-14B-Diffusers",
        "transformer",
        "whole",
        VIDEO,
        {**HEADS, "ffn_dim": 2048, "added_kv_proj_dim": 512},
    ),
    "kl-decode": Case(FLUX, "vae", "decode", Clip(1, 320, 256, 0), FOUR_LEVELS),
    "kl-encode": Case(FLUX, "vae", "encode", Clip(1, 320, 256, 0), FOUR_LEVELS),
    "kl-decode-tiled": Case(FLUX, "vae", "decode_tiled", Clip(1, 320, 256, 0), {**FOUR_LEVELS, "sample_size": 128}),
    "qwen-decode": Case(QWEN, "vae", "decode", Clip(1, 320, 256, 0), {"base_dim": 32}),
    "dc-decode": Case(
        SANA,
        "vae",
        "decode",
        Clip(1, 320, 256, 0),
        {
            "decoder_block_out_channels": [32, 64, 128, 128, 256, 256],
            "encoder_block_out_channels": [32, 64, 128, 128, 256, 256],
            "attention_head_dim": 32,
        },
    ),
    "wan-decode": Case(WAN, "vae", "decode", Clip(1, 256, 320, 13), {"base_dim": 32}),
    "wan-encode": Case(WAN, "vae", "encode", Clip(1, 256, 320, 13), {"base_dim": 32}),
    "ltx-decode": Case(LTX, "vae", "decode", Clip(1, 256, 320, 25), {"decoder_block_out_channels": [32, 64, 64, 64]}),
    "cogvideox-decode": Case(COG, "vae", "decode", Clip(1, 192, 256, 13), {"block_out_channels": [32, 64, 64, 128]}),
    "hunyuan-video-decode": Case(
        HUNYUAN, "vae", "decode", Clip(1, 192, 256, 29), {"block_out_channels": [32, 64, 64, 64]}
    ),
    "mochi-decode": Case(
        MOCHI, "vae", "decode", Clip(1, 192, 256, 13), {"decoder_block_out_channels": [32, 64, 64, 128]}
    ),
    "ltx2-decode": Case(
        "Lightricks/LTX-2", "vae", "decode", Clip(1, 256, 320, 25), {"decoder_block_out_channels": [64, 128, 256]}
    ),
    "t5": Case(FLUX, "text_encoder_2", "text", Texts(1, 300), NARROW),
    "umt5": Case(WAN, "text_encoder", "text", Texts(1, 300), NARROW),
    "clip": Case(FLUX, "text_encoder", "text", Texts(3, 77), {"num_hidden_layers": 4, "vocab_size": 50000}),
    "clip-vision": Case(
        "Wan-AI/Wan2.1-I2V-14B-480P-Diffusers", "image_encoder", "text", Texts(3, 77), {"num_hidden_layers": 2}
    ),
    "gemma2": Case(LUMINA, "text_encoder", "text", Texts(1, 300), SMALL_LLM),
    "llama": Case(HUNYUAN, "text_encoder", "text", Texts(1, 300), SMALL_LLM),
    "qwen3": Case("Tongyi-MAI/Z-Image", "text_encoder", "text", Texts(1, 300), SMALL_LLM),
    "glm": Case("zai-org/CogView4-6B", "text_encoder", "text", Texts(1, 300), {**SMALL_LLM, "pad_token_id": 0}),
    "llama-lm": Case("HiDream-ai/HiDream-I1-Full", "text_encoder_4", "text", Texts(1, 300), SMALL_LLM),
}
QUICK = ("flux", "wan", "unet", "kl-decode", "kl-decode-tiled", "wan-decode", "t5", "qwen3")


class Filled(TorchFunctionMode):  # type: ignore[misc]
    """Numbers in what `torch.empty` makes: garbage would be out of range where it is an index."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is torch.empty:
            return result.normal_(std=0.02) if result.is_floating_point() else result.zero_()
        return result


def estimated_bytes(case: Case, monkeypatch: pytest.MonkeyPatch) -> int:
    """What `kind: cpu` is estimated to take, by a fit of the small configuration."""
    known, component = load_model(case.model), case.component
    modes = {case.mode: measure.measure(known, case.name, component, case.mode)}
    if case.mode == "text":
        modes["text_float32"] = measure.measure(known, case.name, component, "text_float32")
    config = shape_config(component, case.name in known.denoisers)
    entry = {"class": component.class_name, "of": case.model, "config": config, "modes": modes}
    monkeypatch.setattr(activations, "_entries", lambda: (entry,))
    activations.forget()
    try:
        if isinstance(case.size, Shape):
            call = Call(case.size.batch, case.size.image, case.size.text)
            return peaks.denoise_on("cpu", component, call, DTYPE).peak_bytes
        if isinstance(case.size, Clip):
            return peaks.clip_on("cpu", component, case.size, DTYPE, case.mode).peak_bytes
        return peaks.texts_on("cpu", component, case.size, DTYPE).peak_bytes
    finally:
        activations.forget()


def allocated_bytes(case: Case) -> int:
    """The most that the allocator had given out at once, inputs and buffers included, weights apart."""
    component = case.component
    with torch.no_grad(), Filled(), threads(2):
        built = build(component.class_name, component.library, component.config, DTYPE)
        for parameter in built.parameters():
            parameter.normal_(std=0.02)
        if case.mode.endswith("tiled"):
            built.enable_tiling()
        run = call_of(case, built)
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
            run.call()
    # The profiler has no public list of single allocations; these are what its own timeline is drawn from.
    events = profiler.profiler.kineto_results.events()
    changes = sorted((event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]")
    storages = [tensor.untyped_storage() for tensor in held_tensors(built, run)]
    live = most = sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())
    for _, change in changes:
        live += change
        most = max(most, live)
    return int(most)


def call_of(case: Case, built: Any) -> Run:
    """The one call of a case."""
    if isinstance(case.size, Shape):
        return denoiser_call(built, case.component.config, case.size, DTYPE)
    if isinstance(case.size, Clip):
        return vae_call(built, case.mode, case.size, DTYPE)
    return encoder_call(built, case.size, DTYPE)


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Some of torch's kernels take other ways with a single thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_an_estimate_is_near_what_the_allocator_gave(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    estimate, allocated = estimated_bytes(CASES[name], monkeypatch), allocated_bytes(CASES[name])
    assert estimate == pytest.approx(allocated, rel=0.1)


def test_the_page_has_a_row_for_every_case() -> None:
    """Within ten percent, all of them."""
    rows = [line.split("|")[1:-1] for line in _table_of(PAGE.read_text(encoding="utf-8")).splitlines()[2:]]
    assert [row[0].strip() for row in rows] == list(CASES)
    assert all(0.9 <= float(row[-1]) <= 1.1 for row in rows)


def _table_of(page: str) -> str:
    return page.partition(BEGIN)[2].partition(END)[0].strip()


def main() -> None:
    """Measures every case and writes the table into the page."""
    logging.disable(logging.WARNING)
    lines = ["| case | class | call | estimate MiB | allocated MiB | ratio |", "|---|---|---|---|---|---|"]
    for name, case in CASES.items():
        with pytest.MonkeyPatch.context() as patch:
            estimate = estimated_bytes(case, patch)
        allocated = allocated_bytes(case)
        sizes = f"{estimate / MIB:.1f} | {allocated / MIB:.1f} | {estimate / allocated:.3f}"
        lines.append(f"| {name} | `{case.component.class_name}` | {case.mode} | {sizes} |")
        print(lines[-1], flush=True)
    page = PAGE.read_text(encoding="utf-8")
    start, _, rest = page.partition(BEGIN)
    PAGE.write_text(f"{start}{BEGIN}\n\n" + "\n".join(lines) + f"\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
