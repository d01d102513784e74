"""Cases 126 to 133: quantized weights and adapters beside a split."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

FLUX = "version: 1\nmodel: {id: black-forest-labs/FLUX.1-dev}\n"
ADAPTED = "version: 1\nmodel: {id: black-forest-labs/FLUX.1-dev, adapters: [{path: a.safetensors}]}\n"
PICTURE = "run: {prompts: [a red fox], height: 1024, width: 1024}\n"
GOLDEN = Path(__file__).parents[1] / "golden" / "models"


def gpus(count: int, gpu: str = "h200-sxm") -> str:
    return f"devices: {{gpu: {gpu}, per_node: {count}}}\n"


def quantized(method: str, kind: str) -> str:
    return f"components: {{transformer: {{quantize: {{method: {method}, type: {kind}}}}}}}\n"


def transformer_on(compiled: Any, text: str) -> dict[int, int]:
    """Bytes of the transformer on each device."""
    devices = compiled(text).plan_json["devices"]
    held = {device["device"]: device["components"].get("transformer") for device in devices}
    return {number: part["weight_bytes"] for number, part in held.items() if part is not None}


def test_case_126_four_bits_on_the_second_device(verdict: Any, compiled: Any) -> None:
    """huggingface/diffusers#10798: it is loaded straight onto the device that the plan gives it."""
    text = FLUX + gpus(2) + PICTURE + quantized("bitsandbytes", "nf4")
    text += "parallel: {device_map: {transformer: 1}}\n"
    assert verdict(text) == []
    assert list(transformer_on(compiled, text)) == [1]


def test_case_128_everything_on_the_first_device(verdict: Any, compiled: Any) -> None:
    """huggingface/transformers#34751, bitsandbytes-foundation/bitsandbytes#1411: placed before anything is loaded, by
    the bytes that four bits take: 0.5 a weight, and 4 for the scale of each 64."""
    four_bits = "{quantize: {method: bitsandbytes, type: nf4}}"
    text = FLUX + gpus(8) + PICTURE + f"components: {{transformer: {four_bits}, text_encoder_2: {four_bits}}}\n"
    text += "parallel: {device_map: {transformer: [0, 1, 2, 3, 4, 5, 6, 7]}}\n"
    assert [one.code for one in verdict(text) if one.severity == "error"] == []
    held = transformer_on(compiled, text)
    assert len(held) > 2
    assert sum(held.values()) == pytest.approx(0.5625 * 11_901_408_320, rel=1e-3)
    assert max(held.values()) < 0.7 * sum(held.values())


def test_case_129_quantizing_needs_headroom(verdict: Any, compiled: Any) -> None:
    """huggingface/diffusers#14261: torchao quantizes on the host here; a device needs room for the largest layer's
    weights beside the activations, because a layer unpacks them to compute."""
    text = FLUX + "devices: {gpu: l40s}\n" + PICTURE
    eight = text + quantized("torchao", "int8wo")
    assert verdict(eight) == []
    weights = sum(transformer_on(compiled, eight).values())
    assert weights == pytest.approx(11_901_408_320, rel=2e-3)
    (whole,), (quantized_one,) = (compiled(one).plan_json["devices"] for one in (text, eight))
    largest = 18_432 * 3_072 * 2
    phases = [{phase["phase"]: phase["activation_bytes"] for phase in one["phases"]} for one in (whole, quantized_one)]
    assert phases[1]["denoise"] - phases[0]["denoise"] == largest


@pytest.mark.parametrize(("parallel", "codes"), [("{tensor: 3}", ["DC445"]), ("{data: 3}", []), ("{}", [])])
def test_case_130_quantized_and_split(parallel: str, codes: list[str], verdict: Any, tmp_path: Path) -> None:
    """komikndr/raylight#29, intel/llm-scaler#201, huggingface/optimum-quanto#396: packed weights are not split; they
    may be whole on every replica."""
    refused = verdict(FLUX + gpus(2) + PICTURE + quantized("torchao", "float8wo") + "parallel: {tensor: 2}\n")
    assert [(one.code, one.path) for one in refused] == [("DC445", "parallel.tensor")]
    for kept in ("{data: 2}", "{context: {ulysses: 2}}", "{device_map: {transformer: [0, 1]}}"):
        text = FLUX + gpus(2) + PICTURE.replace("fox", "fox, a hen") + quantized("torchao", "float8wo")
        assert verdict(text + f"parallel: {kept}\n") == []
    shutil.copytree(GOLDEN / "quantized-flux", tmp_path / "model")
    run = "run: {prompts: [a, b, c], height: 64, width: 64}\n"
    found = verdict(
        f"version: 1\nmodel: {{path: model}}\n{gpus(3 if parallel != '{}' else 1)}{run}parallel: {parallel}"
    )
    assert [one.code for one in found] == codes
    if codes:
        assert found[0].path == "parallel.tensor"
        assert "bitsandbytes" in found[0].message
        assert "`context` or `data`" in found[0].hint


def test_case_132_an_adapter_over_two_ranks(compiled: Any) -> None:
    """huggingface/diffusers#11637: loaded whole on every rank before the split, from files that are the same on all
    (tests/distributed/test_kept_by_runtime.py::test_ranks_with_other_files_do_not_begin); the pictures are compared in
    tests/oracle/test_adapters.py."""
    program = compiled(ADAPTED + gpus(2) + PICTURE + "parallel: {context: {ulysses: 2}}\n").plan_json["program"]
    assert program["pipeline"]["adapters"] == [
        {"path": "a.safetensors", "weight": 1.0, "component": "transformer", "fuse": False}
    ]
    tensor = compiled(ADAPTED + gpus(2) + PICTURE + "parallel: {tensor: 2}\n").plan_json["program"]
    assert tensor["pipeline"]["adapters"][0]["fuse"] is True


def test_case_133_an_adapter_on_a_model_over_two_devices(compiled: Any) -> None:
    """huggingface/diffusers#9449, #9823: an adapter is loaded before blocks are placed, whether over one device or two
    (tests/oracle/test_adapters.py, `between-blocks`)."""
    for devices, where in ((2, "[0, 1]"), (2, "1")):
        cut = f"parallel: {{device_map: {{transformer: {where}}}}}\n"
        made = compiled(ADAPTED + gpus(devices) + PICTURE + cut)
        assert made.is_valid
        assert made.plan_json["program"]["pipeline"]["adapters"][0]["fuse"] is False
