"""Cases 48 to 54: attention heads against the degrees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dcompile.driver import compile_recipe

FLUX = "version: 1\nmodel: {id: black-forest-labs/FLUX.1-dev}\n"
WAN = "version: 1\nmodel: {id: Wan-AI/Wan2.1-T2V-%s-Diffusers}\n"
LOCAL = "version: 1\nmodel: {path: model}\n"
VIDEO = "run: {prompts: [a red fox], height: 720, width: 1280, frames: 81}\n"
PICTURE = "run: {prompts: [a red fox], height: 1024, width: 1024}\n"


def gpus(count: int) -> str:
    return f"devices: {{gpu: b200-sxm, per_node: {count}}}\n"


def test_case_048_what_may_the_degrees_be(verdict: Any) -> None:
    """Wan-Video/Wan2.1#109: 40 heads take Ulysses 8; 12 heads take 4, with a ring of 2 for eight ranks."""
    assert verdict(WAN % "14B" + gpus(8) + VIDEO + "parallel: {context: {ulysses: 8}}") == []
    found = verdict(WAN % "1.3B" + gpus(8) + VIDEO + "parallel: {context: {ulysses: 8}}")
    assert [(one.code, one.path) for one in found] == [("DC401", "parallel.context.ulysses")]
    assert found[0].message == "12 heads of `transformer` cannot be divided by ulysses 8"
    assert found[0].hint == "use 1, 2, 3, 4, 6 or 12; `{ulysses: 4, ring: 2}` for 8 ranks"
    assert verdict(WAN % "1.3B" + gpus(8) + VIDEO + "parallel: {context: {ulysses: 4, ring: 2}}") == []


def test_case_049_twelve_heads_on_eight_ranks(verdict: Any) -> None:
    """NVIDIA/TensorRT-Model-Connect#714: 16 slots with four empty ones. diffusers takes fewer empty heads than a rank
    has, which are two here, so `uneven` is refused too; where it is legal, its share of nothing is said."""
    assert [one.code for one in verdict(WAN % "1.3B" + gpus(8) + VIDEO + "parallel: {context: {ulysses: 8}}")] == [
        "DC401"
    ]
    found = verdict(WAN % "1.3B" + gpus(8) + VIDEO + "parallel: {context: {ulysses: 8, uneven: true}}")
    assert [(one.code, one.severity) for one in found] == [("DC401", "error")]
    assert found[0].message == "12 heads of `transformer` leave ulysses 8 with 4 empty ones"
    found = verdict(WAN % "14B" + gpus(3) + VIDEO + "parallel: {context: {ulysses: 3, uneven: true}}")
    assert [(one.code, one.severity, one.path) for one in found] == [("DC421", "advice", "parallel.context.ulysses")]
    assert found[0].message == "2 of 42 head slots of `transformer` are padding: at most 95% of the speed"


def test_case_050_thirty_heads_on_four_ranks(verdict: Any, pipeline_folder: Any) -> None:
    """vipshop/cache-dit#546: Z-Image has no plan in diffusers, which is the first thing wrong."""
    pipeline_folder("ZImagePipeline", "ZImageTransformer2DModel", {"n_heads": 30})
    found = verdict(LOCAL + gpus(4) + PICTURE + "parallel: {context: {ulysses: 4}}")
    assert "DC406" in [one.code for one in found]


@pytest.mark.parametrize(("degree", "codes"), [(7, ["DC401"]), (6, ["DC408"]), (4, ["DC408"])])
def test_case_052_the_planner_and_the_check_agree(degree: int, codes: list[str], verdict: Any) -> None:
    """gpustack/gpustack#885: seven devices do not divide 24 heads; six do, and the idle one is reported. Whatever
    chooses degrees asks these rules."""
    found = verdict(FLUX + gpus(7) + PICTURE + f"parallel: {{tensor: {degree}}}")
    assert [one.code for one in found] == codes
    if degree == 6:
        assert found[0].message == "the plan uses 6 of 7 devices"


@pytest.mark.parametrize(
    ("parallel", "path"),
    [
        ("{tensor: 5}", "parallel.tensor"),
        ("{context: {ulysses: 5}}", "parallel.context.ulysses"),
        ("{context: {ulysses: 7, uneven: true}}", "parallel.context.ulysses"),
    ],
)
def test_case_053_each_clause_alone(parallel: str, path: str, verdict: Any) -> None:
    """NVIDIA/TensorRT-LLM#14012: one violation is enough; a recipe for each clause."""
    run = PICTURE.replace("1024", "1280").replace("}", ", args: {max_sequence_length: 490}}")
    found = verdict(FLUX + gpus(5 if "5" in parallel else 7) + run + f"parallel: {parallel}")
    assert ("DC401", path) in [(one.code, one.path) for one in found]


def test_case_053_the_width_alone(verdict: Any) -> None:
    """The second clause of tensor parallelism: heads divide, a fused part of a weight does not."""
    golden = Path(__file__).parents[1] / "golden" / "diagnostics" / "DC412" / "odd-mlp.yaml"
    assert [found.code for found in compile_recipe(golden).diagnostics] == ["DC412"]


def test_case_054_heads_after_another_split(verdict: Any) -> None:
    """sgl-project/sglang#33704: diffusers takes no tensor beside context on one model, whatever the heads; and a width
    that divides is not enough: 3072 / 16 is whole, 24 heads / 16 are not."""
    found = verdict(FLUX + gpus(16) + PICTURE + "parallel: {tensor: 4, context: {ulysses: 4}}")
    assert [one.code for one in found] == ["DC404"]
    found = verdict(FLUX + gpus(16) + PICTURE + "parallel: {tensor: 16}")
    assert [one.code for one in found] == ["DC401"]
    assert 3072 % 16 == 0
