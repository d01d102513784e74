"""Qwen-Image 2.1: unpacked latents, keys that are kept from step to step, and sizes that it floors to two tokens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from dcompile.driver import Compiled
from dcompile.facts.registry import load_model
from dcompile.layout.shard import count_parameters
from dcompile.memory.activations import Clip
from dcompile.memory.peaks import clip_on

MIB = 2**20
RECIPE = """
    version: 1
    model: {id: Qwen/Qwen-Image-2.1}
    devices: {gpu: h100-sxm-80gb, per_node: DEGREE}
    parallel: {PLAN}
    run: {prompts: [a fox, a hare], seed: 1, RUN}
    """


@pytest.fixture
def made(compiled: Callable[..., Compiled], picture: Callable[..., str]) -> Callable[..., Compiled]:
    """Compiles a job: `made("tensor: 2", run="height: 512")`."""

    def make(plan: str = "", *, degree: int = 1, run: str = "height: 1024") -> Compiled:
        return compiled(RECIPE.replace("PLAN", plan).replace("DEGREE", str(degree)).replace("RUN", run))

    return make


def settings(found: Compiled):
    assert found.checked is not None, found.diagnostics
    return found.checked.subject.settings


@pytest.mark.parametrize(("degree", "billions"), [(1, 7.12), (2, 3.63), (4, 1.88), (8, 1.01)])
def test_what_a_rank_holds(degree: int, billions: float, made: Callable[..., Compiled]) -> None:
    """Row "Qwen-Image-2.1" of the research's table of tensor splits (`rules.md`, section 2.6), in bfloat16."""
    plan = made(f"tensor: {degree}" if degree > 1 else "", degree=degree).plan
    assert plan is not None
    (held,) = (part.weight_bytes for part in plan.components if part.name == "transformer")
    assert held / 2e9 == pytest.approx(billions, abs=0.006)


def test_the_text_encoder_is_qwen3_vl_8b() -> None:
    """`total_size` of that model's index: 17,534,247,392 bytes in bfloat16."""
    assert count_parameters(load_model("Qwen/Qwen-Image-2.1").components["text_encoder"]) * 2 == 17_534_247_392


def test_a_token_is_a_latent(made: Callable[..., Compiled]) -> None:
    assert settings(made(run="height: 1024, width: 768")).sequence_tokens == 64 * 48


def test_sizes_are_floored_to_two_tokens(made: Callable[..., Compiled]) -> None:
    found = made(run="height: 1040, width: 1024")
    assert settings(found).sequence_tokens == 64 * 64
    (warning,) = (item for item in found.diagnostics if item.code == "DC308")
    assert "the pipeline makes 1024" in warning.message


def test_the_area_can_be_asked_for(made: Callable[..., Compiled]) -> None:
    assert settings(made(run="args: {output_resolution: 2048}")).sequence_tokens == 128 * 128


def test_pictures_join_text_and_sequence(made: Callable[..., Compiled], picture: Callable[..., str]) -> None:
    """A picture of 512x256 is encoded at 1440x736 (`calculate_dimensions`): 90 by 46 latents, a fourth the slots."""
    found = settings(made(run=f"images: [{Path(picture(512, 256)).name}]"))
    assert (found.width_px, found.height_px) == (1440, 736)
    assert (found.reference_tokens, found.seen_tokens) == (90 * 46, 45 * 23)


@pytest.mark.parametrize(("arguments", "tokens"), [("", 512), (", args: {use_kv_cache: false}", 0)])
@pytest.mark.parametrize("degree", [1, 4])
def test_keys_and_values_are_kept(degree: int, arguments: str, tokens: int, made: Callable[..., Compiled]) -> None:
    """Of 512 tokens, in 32 blocks, 4096 wide, in bfloat16: 256 MiB, of which a rank keeps those of its heads."""

    def peak(run: str) -> int:
        found = made(f"tensor: {degree}" if degree > 1 else "", degree=degree, run=run)
        assert found.checked is not None, found.diagnostics
        return found.checked.subject.owned.peaks["transformer"]["denoise"].peak.peak_bytes

    bare = peak("height: 1024, args: {use_kv_cache: false}")
    assert peak(f"height: 1024{arguments}") - bare == 2 * tokens * 32 * 4096 * 2 // degree


def test_both_branches_keep_theirs(made: Callable[..., Compiled]) -> None:
    def kept(run: str) -> int:
        found = made(run=run)
        assert found.checked is not None, found.diagnostics
        return found.checked.subject.owned.peaks["transformer"]["denoise"].peak.peak_bytes

    one = kept("height: 1024")
    assert kept("height: 1024, true_cfg: 4.0, negative_prompt: blurred") - one == 256 * MIB


def test_prompts_of_one_call_see_each_others_length(made: Callable[..., Compiled]) -> None:
    """The picture's positions begin behind the longest text of the call."""
    found = made(run="batch: 2")
    assert {item.code for item in found.diagnostics if item.severity.value == "error"} == {"DC414"}


def test_a_published_peak_of_its_decoder() -> None:
    """1.7 MiB for each latent, the worst of tiles from 8 to 128 latents with the real weights, in bfloat16 (unslothai's
    studio, `DECODE_MIB_PER_LATENT_BY_CLASS`); ours has cuDNN's work space in it too."""
    found = clip_on(
        "cuda", load_model("Qwen/Qwen-Image-2.1").components["vae"], Clip(1, 1024, 1024, 0), "bfloat16", "decode"
    )
    measured = 1.7 * MIB * 64 * 64
    assert found.peak_bytes - found.margin_bytes < measured < found.peak_bytes + found.margin_bytes
    assert found.peak_bytes == pytest.approx(measured, rel=0.15)
