"""Rows about tensor parallelism, caches and compiled blocks that no single rule keeps: what cannot be said."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dcompile.driver import Compiled

FLUX = "model: {id: black-forest-labs/FLUX.1-dev}\n"
RUN = "run: {prompts: [a red fox], height: 1024, width: 1024}\n"
GOLDEN = Path(__file__).parents[1] / "golden" / "models"


@pytest.fixture
def of(compiled: Callable[..., Compiled]) -> Callable[[str], Compiled]:
    return lambda text: compiled(f"version: 1\n{text}")


def codes(compiled: Compiled) -> list[str]:
    return [found.code for found in compiled.diagnostics]


def gpus(count: int) -> str:
    return f"devices: {{gpu: b200-sxm, per_node: {count}}}\n"


@pytest.mark.parametrize(
    ("model", "extra"),
    [
        ("{id: black-forest-labs/FLUX.1-dev, low_cpu_mem_usage: false}", "parallel: {tensor: 2}"),
        ("{id: black-forest-labs/FLUX.1-dev, use_safetensors: false}", "parallel: {tensor: 2}"),
        ("{id: black-forest-labs/FLUX.1-dev, use_flashpack: true}", "parallel: {tensor: 2}"),
        ("{id: black-forest-labs/FLUX.1-dev, fuse_qkv: true}", "parallel: {tensor: 2}"),
        ("{id: black-forest-labs/FLUX.1-dev}", "parallel: {tensor: 2}\ncomponents: {transformer: {fuse_qkv: true}}"),
        ("{id: black-forest-labs/FLUX.1-dev}", "parallel: {tensor: 2}\ncomponents: {transformer: {tp_plan: {}}}"),
        ("{id: black-forest-labs/FLUX.1-dev}", "parallel: {tensor: {degree: 2, mesh: [0, 1]}}"),
        ("{id: black-forest-labs/FLUX.1-dev}", "parallel: {tensor: 2}\ncomponents: {transformer: {storage: fp8}}"),
        ("{id: black-forest-labs/FLUX.1-dev}", "parallel: {tensor: 2}\noutput: {gather: true}"),
        ("{id: black-forest-labs/FLUX.1-dev}", "parallel: {data: 2, apply_padding: true}"),
    ],
)
def test_what_the_recipe_cannot_say(model: str, extra: str, of: Any) -> None:
    assert codes(of(f"model: {model}\n{gpus(2)}{RUN}{extra}")) == ["DC201"]


def test_a_plan_is_the_librarys_or_ours(of: Any) -> None:
    plan = "parallel: {tensor: {degree: 2, plan: {'transformer_blocks.*.ff': colwise}}}"
    assert codes(of(FLUX + gpus(2) + RUN + plan)) == ["DC203"]


@pytest.mark.parametrize("kind", ["mps", "npu", "hpu"])
def test_kinds_of_devices(kind: str, of: Any) -> None:
    assert codes(of(f"{FLUX}{RUN}devices: {{kind: {kind}, memory: 64GiB}}")) == ["DC204"]


def test_degree_one_is_no_axis(of: Any) -> None:
    program = of(f"{FLUX}{gpus(2)}{RUN.replace('[a red fox]', '[a, b]')}parallel: {{tensor: 1, data: 2}}").plan_json
    assert program["mesh"] == {"data": 2}
    assert program["program"]["components"]["transformer"]["tensor"] is None


def test_a_world_is_the_product_of_its_axes(of: Any) -> None:
    plan = of(f"{FLUX}{gpus(8)}{RUN.replace('[a red fox]', '[a, b]')}parallel: {{tensor: 4, data: 2}}").plan_json
    assert (plan["mesh"], plan["program"]["ranks"]) == ({"data": 2, "tensor": 4}, 8)


def test_weights_that_are_no_safetensors(of: Any, tmp_path: Path) -> None:
    folder = tmp_path / "pickled" / "transformer"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"_class_name": "FluxTransformer2DModel"}))
    (folder / "diffusion_pytorch_model.bin").write_bytes(b"\x80\x02}q\x00.")
    index = {"_class_name": "FluxPipeline", "transformer": ["diffusers", "FluxTransformer2DModel"]}
    (tmp_path / "pickled" / "model_index.json").write_text(json.dumps(index))
    compiled = of(f"model: {{path: pickled}}\n{gpus(2)}{RUN}parallel: {{tensor: 2}}")
    assert codes(compiled) == ["DC303"]
    assert "safetensors" in compiled.diagnostics[0].message


def test_one_step_cache_of_a_component(of: Any) -> None:
    twice = "components:\n  transformer:\n    cache: {kind: first_block}\n    cache: {kind: taylor_seer}\n"
    assert "DC111" in codes(of(FLUX + gpus(1) + RUN + twice))


def test_stacks_that_the_model_does_not_have_are_not_split(of: Any) -> None:
    compiled = of(
        f"model: {{path: {GOLDEN / 'odd-flux'}}}\n{gpus(3)}run: {{prompts: [a], height: 64, width: 64}}\n"
        "parallel: {tensor: 3}"
    )
    layout = compiled.plan_json["program"]["components"]["transformer"]["tensor"]
    assert {name.partition(".")[0] for name in layout["styles"]} == {"transformer_blocks"}
    assert set(layout["parameters"]) >= {"transformer_blocks.0.attn.to_v.weight"}


def test_seeds_follow_the_pictures_not_the_ranks(of: Any) -> None:
    def rows(data: int) -> list[tuple[int, str, int]]:
        run = "run: {prompts: [a fox, a boat], images_per_prompt: 2, seed: 7}\n"
        plan = of(f"{FLUX}{gpus(data)}{run}parallel: {{data: {data}}}").plan_json
        return [(row["index"], row["prompt"], row["seed"]) for row in plan["program"]["run"]["rows"]]

    assert rows(1) == [(0, "a fox", 7), (1, "a fox", 8), (2, "a boat", 9), (3, "a boat", 10)]
    assert rows(2) == rows(3) == rows(4) == rows(1)


def test_one_text_is_the_name_of_a_file(of: Any) -> None:
    (found,) = of(f"{FLUX}run: {{prompts: a red fox}}").diagnostics
    assert (found.code, found.path) == ("DC305", ("run", "prompts"))
