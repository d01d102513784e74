"""Cases 64 to 75: models, backends and features that cannot be split so."""

from __future__ import annotations

from typing import Any

import pytest

FLUX = "version: 1\nmodel: {id: black-forest-labs/FLUX.1-dev}\n"
QWEN = "version: 1\nmodel: {id: Qwen/Qwen-Image}\n"
WAN = "version: 1\nmodel: {id: Wan-AI/Wan2.1-T2V-14B-Diffusers}\n"
SDXL = "version: 1\nmodel: {id: stabilityai/stable-diffusion-xl-base-1.0}\n"
LOCAL = "version: 1\nmodel: {path: model}\n"
PICTURE = "run: {prompts: [a red fox in deep snow], height: 1024, width: 1024}\n"
VIDEO = "run: {prompts: [a red fox], height: 720, width: 1280, frames: 81}\n"
TWO = "run: {prompts: [a red fox, a very red fox in the deep snow], height: 1024, width: 1024, batch: 2}\n"


def gpus(count: int) -> str:
    return f"devices: {{gpu: b200-sxm, per_node: {count}}}\n"


def test_case_064_the_class_has_no_plan(verdict: Any, pipeline_folder: Any) -> None:
    """huggingface/diffusers#12603: refused before anything is downloaded, with the classes that have a plan."""
    pipeline_folder("HunyuanVideoPipeline", "HunyuanVideoTransformer3DModel", {"num_attention_heads": 24})
    found = verdict(LOCAL + gpus(4) + PICTURE + "parallel: {context: {ulysses: 4}}")
    assert [(one.code, one.path) for one in found] == [("DC406", "parallel.context")]
    assert found[0].message == "HunyuanVideoTransformer3DModel has no context-parallel plan"
    assert "use `data` or `device_map`" in found[0].hint
    for name in ("Flux", "Flux2", "QwenImage", "Wan", "LTXVideo", "ChronoEdit", "Helios", "MiniMaxH3"):
        assert f"{name}Transformer" in found[0].hint


def test_case_065_wan_has_no_tensor_plan(verdict: Any, compiled: Any) -> None:
    """vipshop/cache-dit#341, modelscope/DiffSynth-Studio#449: the class has a context plan only, under which its
    26.67 GiB stay on every rank."""
    found = verdict(WAN + gpus(4) + VIDEO + "parallel: {tensor: {degree: 4, plan: builtin}}")
    assert [one.code for one in found] == ["DC405"]
    assert "`context`" in found[0].hint
    made = compiled(WAN + gpus(4) + VIDEO + "parallel: {context: {ulysses: 4}}")
    whole = next(part for part in made.plan.components if part.name == "transformer")
    assert whole.weight_bytes == 28_635_351_168


@pytest.mark.parametrize(
    ("pipeline", "denoiser"),
    [
        ("MochiPipeline", "MochiTransformer3DModel"),
        ("StableDiffusion3Pipeline", "SD3Transformer2DModel"),
        ("CogVideoXPipeline", "CogVideoXTransformer3DModel"),
        ("HiDreamImagePipeline", "HiDreamImageTransformer2DModel"),
        ("ZImagePipeline", "ZImageTransformer2DModel"),
        ("ChromaPipeline", "ChromaTransformer2DModel"),
    ],
)
def test_case_066_models_that_others_can_split(
    pipeline: str, denoiser: str, verdict: Any, pipeline_folder: Any
) -> None:
    """From huggingface/diffusers#12603, xdit-project/xDiT#509: no class of these has a plan, and a recipe has no key
    for one by hand."""
    pipeline_folder(pipeline, denoiser, {"num_attention_heads": 24})
    found = verdict(LOCAL + gpus(2) + PICTURE + "parallel: {context: {ring: 2}}")
    assert "DC406" in [one.code for one in found]
    found = verdict(LOCAL + gpus(2) + PICTURE + "parallel: {context: {ring: 2, plan: my-plan.py}}")
    assert [one.code for one in found] == ["DC201", "DC406"]


def test_case_068_a_backend_that_takes_no_mask(verdict: Any, compiled: Any) -> None:
    """bghira/SimpleTuner#3106, vllm-project/vllm-omni#1379: flash is refused where prompts are padded, what is chosen
    takes the mask, and the ring with a mask is refused."""
    context = "parallel: {context: {ulysses: 2, uneven: true}}\n"
    flash = "components: {transformer: {attention: flash}}\n"
    found = verdict(QWEN + gpus(2) + TWO + context + flash)
    assert [(one.code, one.path) for one in found] == [("DC410", "components.transformer.attention")]
    assert found[0].message == "attention backend `flash` takes no attention mask"
    assert found[0].hint.startswith("use native, _native_cudnn")
    made = compiled(QWEN + gpus(2) + TWO + context)
    assert made.plan_json["program"]["components"]["transformer"]["attention"] == "native"
    found = verdict(QWEN + gpus(2) + TWO + "parallel: {context: {ring: 2, uneven: true}}")
    assert [(one.code, one.path) for one in found] == [("DC416", "run.batch")]


def test_case_069_ring_and_flash(verdict: Any) -> None:
    """huggingface/diffusers#13182: right since then. The facts are those of 0.42.1, and a recipe that asks for an
    older one is told so."""
    recipe = (
        FLUX + gpus(2) + PICTURE + "parallel: {context: {ring: 2}}\ncomponents: {transformer: {attention: flash}}\n"
    )
    assert verdict(recipe) == []
    assert [one.code for one in verdict(recipe + 'requires: {diffusers: "<0.37"}\n')] == ["DC310"]


def test_case_070_a_unet_on_four_devices(verdict: Any) -> None:
    """Stability-AI/generative-models#33, chengzeyi/piflux#5, huggingface/diffusers#11108, #3033: a UNet cannot be
    split; four replicas make four pictures at a time, and one prompt leaves three of them idle."""
    found = verdict(SDXL + gpus(4) + PICTURE + "parallel: {context: {ulysses: 4}}")
    assert [one.code for one in found] == ["DC406"]
    assert "use `data`" in found[0].hint
    assert "DC601" in [one.code for one in verdict(SDXL + gpus(4) + PICTURE + "parallel: {data: 4}")]


def test_case_072_a_controlnet_beside_a_split(verdict: Any, pipeline_folder: Any) -> None:
    """vipshop/cache-dit#613, komikndr/raylight#88: residuals keep their full length. A pipeline with a ControlNet is
    refused under `context`; adding one to another pipeline is not available yet."""
    pipeline_folder("FluxControlNetPipeline", "FluxTransformer2DModel", {"num_attention_heads": 24})
    found = verdict(LOCAL + gpus(2) + PICTURE + "parallel: {context: {ulysses: 2}}")
    assert "DC417" in [one.code for one in found]
    hint = next(one.hint for one in found if one.code == "DC417")
    assert "`data`" in hint
    added = "components: {controlnet: {path: controlnet}}\nparallel: {context: {ulysses: 2}}\n"
    found = verdict(FLUX + gpus(2) + PICTURE + added)
    assert [one.severity for one in found] == ["error"] * len(found) != []


def test_case_073_a_split_that_is_not_applied(verdict: Any, pipeline_folder: Any, picture: Any) -> None:
    """vipshop/cache-dit#481: "no effect" has to be an error. At run time a component whose attention does not carry the
    split fails (`tests/distributed/test_ranks.py`); a pipeline whose tokens are not known here is refused unless any
    length will do."""
    config = {"num_attention_heads": 24, "attention_head_dim": 128}
    pipeline_folder("FluxPriorReduxPipeline", "FluxTransformer2DModel", config)
    run = f"run: {{prompts: [a red fox], images: [{picture()}]}}\n"
    found = verdict(LOCAL + gpus(2) + run + "parallel: {context: {ulysses: 2}}")
    assert "DC419" in [one.code for one in found]
    found = verdict(LOCAL + gpus(2) + run + "parallel: {context: {ulysses: 2, uneven: true}}")
    assert "DC419" not in [one.code for one in found]


def test_case_074_one_pipeline_on_each_device(compiled: Any) -> None:
    """huggingface/diffusers#10640, CompVis/stable-diffusion#241, huggingface/transformers#35747: a pipeline is no
    module; `data` starts a process with a whole pipeline for each device."""
    run = "run: {prompts: [a, b, c, d], height: 1024, width: 1024}\n"
    made = compiled(FLUX + gpus(4) + run + "parallel: {data: 4}")
    assert made.diagnostics == ()
    program = made.plan_json["program"]
    assert (program["ranks"], program["devices_per_rank"]) == (4, 1)
    assert program["run"]["shares"] == [[0], [1], [2], [3]]
    assert all(part.layout["kind"] == "replicated" for part in made.plan.components)
