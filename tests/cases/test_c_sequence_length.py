"""Cases 32 to 47: the length of the sequence under context parallelism."""

from __future__ import annotations

from typing import Any

import pytest
from dcompile.layout.degrees import common_degrees
from dcompile.layout.splits import Split
from dcompile.layout.tokens import divisors, image_tokens

QWEN = "version: 1\nmodel: {id: Qwen/Qwen-Image}\n"
FLUX = "version: 1\nmodel: {id: black-forest-labs/FLUX.1-dev}\n"
WAN_14B = "version: 1\nmodel: {id: Wan-AI/Wan2.1-T2V-14B-Diffusers}\n"
LOCAL = "version: 1\nmodel: {path: model}\n"


def gpus(count: int) -> str:
    return f"devices: {{gpu: b200-sxm, per_node: {count}}}\n"


def run(height: int, width: int, frames: int | None = None) -> str:
    clip = f", frames: {frames}" if frames else ""
    return f"run: {{prompts: [a red fox in deep snow], height: {height}, width: {width}{clip}}}\n"


def test_case_032_text_of_its_own_length(verdict: Any) -> None:
    """huggingface/diffusers#12996, #12568: the text of Qwen-Image is as long as the prompt. Strict modes are refused,
    `uneven` is the way; an empty negative prompt counts too."""
    found = verdict(QWEN + gpus(4) + run(1024, 1024) + "parallel: {context: {ulysses: 4}}")
    assert [(one.code, one.path, one.hint) for one in found] == [("DC403", "parallel.context", "set `uneven: true`")]
    assert verdict(QWEN + gpus(4) + run(1024, 1024) + "parallel: {context: {ulysses: 4, uneven: true}}") == []
    short = run(1024, 1024).replace("}", ", true_cfg: 4.0}")
    found = verdict(QWEN + gpus(6) + short + "parallel: {context: {ulysses: 6, uneven: true}}")
    assert [(one.code, one.severity) for one in found] == [("DC403", "error")]
    assert "an empty negative prompt has at most 5 text tokens, and 6 ranks share them" in found[0].message


def test_case_033_a_square_that_nothing_divides(verdict: Any) -> None:
    """From huggingface/diffusers#12996, #12706: 83 x 83 tokens have no divisor from 2 to 32."""
    found = verdict(FLUX + gpus(2) + run(1328, 1328) + "parallel: {context: {ulysses: 2}}")
    assert [(one.code, one.path) for one in found] == [("DC402", "parallel.context")]
    assert found[0].message == "6889 image tokens (83x83) cannot be divided by 2"
    assert "they have no divisor up to 16" in found[0].hint
    assert "1344x1344 gives 7056" in found[0].hint
    assert "`uneven: true`" in found[0].hint
    assert divisors(6889, 32) == (1,)
    qwen = verdict(QWEN + gpus(2) + run(1328, 1328) + "parallel: {context: {ulysses: 2}}")
    assert {one.code for one in qwen} == {"DC402", "DC403"}


@pytest.mark.parametrize(
    ("context", "code"),
    [
        ("{ulysses: 4, uneven: true}", None),
        ("{ring: 4, uneven: true}", None),
        ("{ulysses: 2, ring: 2, uneven: true}", "DC411"),
        ("{uneven: true}", None),
    ],
)
def test_case_034_any_length(context: str, code: str | None, compiled: Any) -> None:
    """huggingface/diffusers#12706, #13545: `uneven` takes any length; with Ulysses alone or the ring alone."""
    made = compiled(FLUX + gpus(4) + run(1328, 1328) + f"parallel: {{context: {context}}}")
    errors = [found.code for found in made.diagnostics if found.severity.value == "error"]
    assert errors == ([code] if code else [])
    if code is None:
        split = made.plan_json["program"]["components"]["transformer"]["context"]
        # Without a degree nothing is split, and a warning says so.
        assert split["uneven"] is True if "4" in context else (split, made.diagnostics[0].code) == (None, "DC411")


def test_case_036_a_model_without_a_plan_and_its_degrees(verdict: Any, pipeline_folder: Any) -> None:
    """xdit-project/mochi-xdit#5: Mochi has no plan in diffusers; its 14310 tokens would divide by 2, 3, 5, 6, 9, 10."""
    pipeline_folder("MochiPipeline", "MochiTransformer3DModel", {"num_attention_heads": 24})
    found = verdict(LOCAL + gpus(4) + run(480, 848) + "parallel: {context: {ulysses: 4}}")
    assert [(one.code, one.path) for one in found] == [("DC406", "parallel.context")]
    assert common_degrees([14310], None, Split(ulysses=4)) == (2, 3, 5, 6, 9, 10, 15)


def test_case_037_no_padding_after_a_gather(verdict: Any, pipeline_folder: Any) -> None:
    """xdit-project/xDiT#471: 57826 tokens came back as 57832. CogVideoX has no plan here; that the uneven modes give
    back what went in is `tests/distributed/test_strategies.py`, where latents are compared with one process."""
    pipeline_folder("CogVideoXPipeline", "CogVideoXTransformer3DModel", {"num_attention_heads": 48})
    found = verdict(LOCAL + gpus(8) + run(480, 720) + "parallel: {context: {ulysses: 8}}")
    assert [one.code for one in found] == ["DC406"]
    assert 57826 % 8 == 2


def test_case_038_the_message_says_what_to_do(verdict: Any) -> None:
    """feifeibear/long-context-attention#154, deepspeedai/DeepSpeed#5177: the number, the degree, sizes near by, and
    the switch."""
    found = verdict(FLUX + gpus(4) + run(1328, 1040) + "parallel: {context: {ulysses: 4}}")
    assert [one.code for one in found] == ["DC402"]
    assert found[0].message == "5395 image tokens (83x65) cannot be divided by 4"
    for part in ("1312x1024 gives 5248", "1344x1056 gives 5544", "`uneven: true`"):
        assert part in found[0].hint


def test_case_040_the_flattened_length_counts(verdict: Any, pipeline_folder: Any) -> None:
    """Tencent-Hunyuan/HunyuanVideo#285, #249: no plan for the class; with one, 33 x 45 x 80 tokens divide by 6 though
    neither 45 nor 80 does."""
    pipeline_folder("HunyuanVideoPipeline", "HunyuanVideoTransformer3DModel", {"num_attention_heads": 24})
    found = verdict(LOCAL + gpus(6) + run(720, 1280) + "parallel: {context: {ulysses: 6}}")
    assert [one.code for one in found] == ["DC406"]
    assert common_degrees([33 * 45 * 80], 24, Split(ulysses=6)) == (2, 3, 4, 6, 8, 12)
    # Wan flattens likewise: 21 x 45 x 80 tokens on 6 ranks of a ring.
    assert verdict(WAN_14B + gpus(6) + run(720, 1280, 81) + "parallel: {context: {ring: 6}}") == []


def test_case_041_degrees_of_a_size_and_what_memory_stays(verdict: Any, compiled: Any) -> None:
    """Tencent-Hunyuan/HunyuanVideo-I2V#41: the size is refused with its degrees; weights stay whole on every rank."""
    found = verdict(WAN_14B + gpus(8) + run(544, 960, 81) + "parallel: {context: {ulysses: 8}}")
    assert verdict(WAN_14B + gpus(8) + run(528, 976, 81) + "parallel: {context: {ulysses: 8}}")[0].code == "DC402"
    assert found == []
    made = compiled(WAN_14B + gpus(8) + run(544, 960, 81) + "parallel: {context: {ulysses: 8}}")
    whole = next(part for part in made.plan.components if part.name == "transformer")
    assert whole.weight_bytes == 28_635_351_168
    small = WAN_14B + "devices: {gpu: l4, per_node: 8}\n" + run(544, 960, 81) + "parallel: {context: {ulysses: 8}}"
    assert [one.code for one in verdict(small)] == ["DC501"]


def test_case_042_common_degrees_of_text_and_video(verdict: Any, pipeline_folder: Any) -> None:
    """xdit-project/xDiT#358, #265: 226 text and 17550 video tokens have 2 in common, whatever the 48 heads allow."""
    pipeline_folder("CogVideoXPipeline", "CogVideoXTransformer3DModel", {"num_attention_heads": 48})
    found = verdict(LOCAL + gpus(4) + run(480, 720) + "parallel: {context: {ulysses: 4}}")
    assert [one.code for one in found] == ["DC406"]
    assert common_degrees([17550, 226], 48, Split(ulysses=4)) == (2,)


def test_case_044_frames_become_latent_frames(verdict: Any) -> None:
    """Vchitect/VEnhancer#11: 49 frames are 13 latent ones, and only the flattened length matters."""
    assert image_tokens({"spatial": 16, "frames": 4}, 480, 832, 49) == 13 * 30 * 52
    assert verdict(WAN_14B + gpus(8) + run(480, 832, 49) + "parallel: {context: {ulysses: 8}}") == []
    found = verdict(WAN_14B + gpus(8) + run(496, 848, 49) + "parallel: {context: {ulysses: 8}}")
    assert found[0].message == "21359 image tokens (31x53 in each of 13 latent frames) cannot be divided by 8"
    assert "`frames: 61` divides" in found[0].hint


def test_case_045_a_stream_that_is_not_split(verdict: Any, pipeline_folder: Any, picture: Any) -> None:
    """huggingface/diffusers#12909: 512 + 257 tokens of text and picture are odd; the class no longer splits them, and
    a recipe that asks for an older diffusers is told so."""
    config = {"num_attention_heads": 40, "added_kv_proj_dim": 5120, "image_dim": 1280}
    pipeline_folder("WanImageToVideoPipeline", "WanTransformer3DModel", config, "AutoencoderKLWan")
    shape = run(480, 832, 81).replace("frames", f"images: [{picture()}], frames")
    recipe = LOCAL + gpus(2) + shape + "parallel: {context: {ulysses: 2}}\n"
    assert not [one for one in verdict(recipe) if one.code in ("DC330", "DC361", "DC402", "DC403", "DC406")]
    old = verdict(recipe + 'requires: {diffusers: "<0.36"}\n')
    assert "DC310" in [one.code for one in old]


def test_case_046_the_product_divides(verdict: Any) -> None:
    """From Wan-Video/Wan2.1#109: Ulysses 8 x ring 2 divides neither 32760 tokens nor, at 720p, leaves a remainder."""
    split = "parallel: {context: {ulysses: 8, ring: 2}}"
    found = verdict(WAN_14B + gpus(16) + run(480, 832, 81) + split)
    assert [(one.code, one.path) for one in found] == [("DC402", "parallel.context")]
    assert "32760 image tokens" in found[0].message
    assert "cannot be divided by 16 (ulysses 8 x ring 2)" in found[0].message
    assert verdict(WAN_14B + gpus(16) + run(720, 1280, 81) + split) == []
