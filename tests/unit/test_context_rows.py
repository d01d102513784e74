"""Rows about context parallelism that no single rule keeps: what cannot be said, what is legal, what follows."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dcompile.driver import Compiled
from dcompile.facts.registry import MODELS, read_json

FLUX = "model: {id: black-forest-labs/FLUX.1-dev}\n"
RUN = "run: {prompts: [a red fox], height: 1024, width: 1024}\n"


@pytest.fixture
def of(compiled: Callable[..., Compiled]) -> Callable[[str], Compiled]:
    return lambda text: compiled(f"version: 1\n{text}")


def codes(compiled: Compiled) -> list[str]:
    return [found.code for found in compiled.diagnostics]


def gpus(count: int) -> str:
    return f"devices: {{gpu: b200-sxm, per_node: {count}}}\n"


@pytest.mark.parametrize(
    "extra",
    [
        "parallel: {context: {ulysses: 2, rotate_method: alltoall}}",
        "parallel: {context: {ulysses: 2, convert_to_fp32: false}}",
        "parallel: {context: {ulysses: 2, plan: {blocks: 1}}}",
        "components: {transformer: {cp_plan: {blocks: 1}}}",
        "launch: {launcher: accelerate}",
        "launch: {num_processes: 2}",
    ],
)
def test_what_the_recipe_cannot_say(extra: str, of: Any) -> None:
    assert codes(of(FLUX + gpus(2) + RUN + extra)) == ["DC201"]


@pytest.mark.parametrize("degree", ["0", "-2"])
def test_degrees_are_whole_and_above_zero(degree: str, of: Any) -> None:
    assert codes(of(f"{FLUX}{gpus(2)}{RUN}parallel: {{context: {{ring: {degree}}}}}")) == ["DC205"]


@pytest.mark.parametrize("parallel", ["{context: {ulysses: 4}}", "{data: 2, context: {ulysses: 2, ring: 2}}"])
def test_every_rank_is_on_the_mesh(parallel: str, of: Any) -> None:
    compiled = of(f"{FLUX}{gpus(8)}{RUN}parallel: {parallel}")
    program = compiled.plan_json["program"]
    product = 1
    for _, degree in program["mesh_axes"]:
        product *= degree
    assert program["ranks"] == product
    assert codes(compiled) == (["DC408"] if product < 8 else ["DC601"])


def test_the_ring_asks_nothing_of_the_heads(of: Any) -> None:
    run = "run: {prompts: [a red fox], height: 1040, width: 1024, args: {max_sequence_length: 510}}\n"
    assert codes(of(f"{FLUX}{gpus(5)}{run}parallel: {{context: {{ring: 5}}}}")) == []
    assert codes(of(f"{FLUX}{gpus(5)}{run}parallel: {{context: {{ulysses: 5}}}}")) == ["DC401"]


def test_the_product_divides_lengths_and_ulysses_the_heads(of: Any) -> None:
    run = "run: {prompts: [a red fox], height: 960, width: 1024, args: {max_sequence_length: 510}}\n"
    assert codes(of(f"{FLUX}{gpus(10)}{run}parallel: {{context: {{ulysses: 2, ring: 5}}}}")) == []
    assert codes(of(f"{FLUX}{gpus(10)}{run}parallel: {{context: {{ulysses: 5, ring: 2}}}}")) == ["DC401"]
    assert codes(of(f"{FLUX}{gpus(4)}{run}parallel: {{context: {{ulysses: 2, ring: 2}}}}")) == ["DC403"]


@pytest.mark.parametrize("batch", [1, 2, 3, 5])
def test_the_batch_is_free(batch: int, of: Any) -> None:
    run = f"run: {{prompts: [a, b, c, d, e], height: 1024, width: 1024, batch: {batch}}}\n"
    assert codes(of(f"{FLUX}{gpus(4)}{run}parallel: {{context: {{ulysses: 4}}}}")) == []


def test_components_share_the_world(of: Any) -> None:
    wan = "model: {id: Wan-AI/Wan2.2-T2V-A14B-Diffusers}\n"
    run = "run: {prompts: [a red fox], height: 480, width: 832, frames: 81}\n"
    split = "parallel: {components: {transformer: {context: {ulysses: 2}}, transformer_2: {context: {ulysses: 2}}}}"
    compiled = of(wan + gpus(2) + run + split)
    assert codes(compiled) == []
    assert compiled.plan_json["program"]["ranks"] == 2


def test_helios_with_an_amplified_history(of: Any, pipeline_folder: Any) -> None:
    blocks = {f"blocks.{i}.norm2.weight": (4,) for i in range(40)}
    for amplified, expected in ((True, ["DC417"]), (False, [])):
        config = {"num_attention_heads": 4, "num_layers": 40, "is_amplify_history": amplified}
        name = f"helios-{amplified}"
        pipeline_folder("HeliosPipeline", "HeliosTransformer3DModel", config, name=name, shapes=blocks)
        split = "parallel: {context: {ulysses: 2, uneven: true}}"
        assert codes(of(f"model: {{path: {name}}}\n{gpus(2)}{RUN}{split}")) == expected


def test_ltx2_has_no_usable_plan(of: Any, pipeline_folder: Any) -> None:
    assert read_json(MODELS / "classes.json")["classes"]["LTX2VideoTransformer3DModel"]["context_plan"] is False
    pipeline_folder("LTX2Pipeline", "LTX2VideoTransformer3DModel", {"num_attention_heads": 4})
    run = "run: {prompts: [a red fox], height: 512, width: 768, frames: 121}\n"
    assert codes(of(f"model: {{path: model}}\n{gpus(2)}{run}parallel: {{context: {{ulysses: 2}}}}")) == ["DC406"]


@pytest.mark.parametrize(
    ("pipeline", "denoiser"),
    [
        ("FluxControlNetPipeline", "FluxTransformer2DModel"),
        ("QwenImageControlNetPipeline", "QwenImageTransformer2DModel"),
    ],
)
def test_controlnet_pipelines(pipeline: str, denoiser: str, of: Any, pipeline_folder: Any) -> None:
    pipeline_folder(pipeline, denoiser, {"num_attention_heads": 4})
    split = "parallel: {context: {ulysses: 2, uneven: true}}"
    assert "DC417" in codes(of(f"model: {{path: model}}\n{gpus(2)}{RUN}{split}"))
    assert "DC417" not in codes(of(f"model: {{path: model}}\n{gpus(2)}{RUN}parallel: {{tensor: 2}}"))


@pytest.mark.parametrize(
    ("pipeline", "denoiser"),
    [
        ("FluxPriorReduxPipeline", "FluxTransformer2DModel"),
        ("HeliosPyramidPipeline", "HeliosTransformer3DModel"),
        ("MiniMaxH3Pipeline", "MiniMaxH3Transformer3DModel"),
    ],
)
def test_pipelines_whose_tokens_are_not_known(
    pipeline: str, denoiser: str, of: Any, pipeline_folder: Any, picture: Any
) -> None:
    pipeline_folder(pipeline, denoiser, {"num_attention_heads": 4})
    run = f"run: {{prompts: [a red fox], images: [{picture()}]}}\n"
    assert "DC419" in codes(of(f"model: {{path: model}}\n{gpus(2)}{run}parallel: {{context: {{ulysses: 2}}}}"))


@pytest.mark.parametrize("seconds", ["0", "2592001"])
def test_a_timeout_has_bounds(seconds: str, of: Any) -> None:
    assert codes(of(f"{FLUX}{gpus(1)}{RUN}launch: {{timeout_seconds: {seconds}}}")) == ["DC205"]


def test_the_launcher_takes_a_free_port(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from dcompile.runtime import launch
    from torch.distributed.launcher import api

    seen: list[Any] = []
    monkeypatch.setattr(api, "elastic_launch", lambda config, entry: lambda *arguments: seen.append(config))
    monkeypatch.setitem(os.environ, "OMP_NUM_THREADS", "1")
    assert launch._start_with_torchrun([], 2, tmp_path) is None
    assert (seen[0].rdzv_endpoint, seen[0].rdzv_backend) == ("localhost:0", "c10d")
    assert seen[0].max_restarts == 0
