"""Rows about placement, offload, quantized weights and sizes that no rule of their own keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dcompile.core.diagnostics import dotted
from dcompile.driver import Compiled, compile_recipe
from dcompile.facts.registry import load_model
from dcompile.layout.splits import AXES
from dcompile.layout.tokens import made_frames

HEAD = "version: 1\nmodel: {id: black-forest-labs/FLUX.1-dev}\ndevices: {gpu: h100-sxm-80gb, per_node: 2}\n"
RUN = "run: {prompts: [a red fox]}\n"
WAN = "Wan-AI/Wan2.1-T2V-1.3B-Diffusers"


def compiled(folder: Path, text: str, **files: str) -> Compiled:
    for name, content in files.items():
        (folder / name.replace("_", ".")).write_text(content, encoding="utf-8")
    file = folder / "recipe.yaml"
    file.write_text(text, encoding="utf-8")
    return compile_recipe(file)


def found(folder: Path, text: str) -> list[tuple[str, str]]:
    return [(item.code, dotted(item.path)) for item in compiled(folder, text).diagnostics]


# Arguments of the libraries' loaders and hooks that a recipe has no way to pass: the runtime sets them or never needs
# them. PDM-04, PDM-15, MDM-03, MDM-05, MDM-06, OFF-02, OFF-03, OFF-04, OFF-07, QNT-01, QNT-02.
@pytest.mark.parametrize(
    "key",
    [
        "model.low_cpu_mem_usage",
        "model.device_map",
        "model.max_memory",
        "model.offload_folder",
        "model.use_flashpack",
        "model.quantization_config",
        "parallel.max_memory",
        "parallel.gpu_id",
        "parallel.components.transformer.gpu_id",
        "parallel.components.transformer.num_blocks_per_group",
        "parallel.components.transformer.use_stream",
        "parallel.components.transformer.record_stream",
        "components.vae.device_map",
        "devices.gpu_id",
    ],
)
def test_keys_that_no_recipe_has(key: str, tmp_path: Path) -> None:
    section, _, leaf = key.rpartition(".")
    text: dict[str, Any] = {"version": 1, "model": {"id": "black-forest-labs/FLUX.1-dev"}, "run": {"prompts": ["a"]}}
    node = text
    for part in section.split("."):
        node = node.setdefault(part, {})
    node[leaf] = 1
    import json

    assert ("DC201", key) in found(tmp_path, json.dumps(text))


# OFF-06, OFF-07, OFF-08, OFF-09, TPC-18.
@pytest.mark.parametrize("kind", ["group", "sequential"])
@pytest.mark.parametrize("beside", ["", "tensor: 2, ", "context: {ulysses: 2}, ", "device_map: balanced, "])
def test_offload_by_groups_or_layers_is_refused_beside_everything(kind: str, beside: str, tmp_path: Path) -> None:
    text = HEAD + RUN + f"parallel: {{{beside}components: {{transformer: {{offload: {kind}}}}}}}\n"
    assert ("DC400", "parallel.components.transformer.offload") in found(tmp_path, text)


@pytest.mark.parametrize(
    ("beside", "codes"),
    [
        ("data: 2, ", []),
        ("context: {ulysses: 2}, ", []),
        ("device_map: {transformer: 1}, ", ["DC520"]),
        ("tensor: 2, ", []),
        ("device_map: {transformer: [0, 1]}, ", ["DC470"]),
    ],
)
def test_what_lies_on_one_device_is_offloaded_beside_everything(beside: str, codes: list[str], tmp_path: Path) -> None:
    """OFF-10, OFF-11, TPC-12, TPC-19, PDM-06: the libraries refuse some of what is whole too."""
    text = HEAD + RUN.replace("fox", "fox, a hen")
    text += f"parallel: {{{beside}components: {{transformer: {{offload: model}}}}}}\n"
    assert [code for code, _ in found(tmp_path, text)] == codes


@pytest.mark.parametrize("method", ["torchao", "bitsandbytes"])
@pytest.mark.parametrize(
    ("beside", "codes"),
    [
        ("{data: 2}", []),
        ("{context: {ulysses: 2}}", []),
        ("{device_map: {transformer: 1}}", []),
        ("{device_map: {transformer: [0, 1]}}", []),
        ("{tensor: 2}", ["DC445"]),
        ("{components: {transformer: {offload: model}}}", {"torchao": [], "bitsandbytes": ["DC435"]}),
    ],
)
def test_quantizing_beside_everything(
    method: str, beside: str, codes: list[str] | dict[str, list[str]], tmp_path: Path
) -> None:
    """QNT-03 to QNT-09: what the libraries refuse or do silently is refused, or the runtime does it otherwise."""
    text = HEAD + RUN.replace("fox", "fox, a hen") + f"parallel: {beside}\n"
    text += f"components: {{transformer: {{quantize: {{method: {method}}}}}}}\n"
    assert [code for code, _ in found(tmp_path, text) if code != "DC408"] == (
        codes[method] if isinstance(codes, dict) else codes
    )


@pytest.mark.parametrize("method", ["quanto", "gguf"])
def test_other_methods_are_refused(method: str, tmp_path: Path) -> None:
    """QNT-07: GGUF files hold one model and no pipeline."""
    text = HEAD + RUN + f"components: {{transformer: {{quantize: {{method: {method}}}}}}}\n"
    assert ("DC400", "components.transformer.quantize.method") in found(tmp_path, text)


@pytest.mark.parametrize("value", ["cpu", "disk", "mps", '"cuda:0"'])
def test_devices_of_a_map_are_numbers(value: str, tmp_path: Path) -> None:
    """PDM-13, MDM-05: no component can be sent to the host or to a disk."""
    text = HEAD + RUN + f"parallel: {{device_map: {{transformer: {value}}}}}\n"
    assert found(tmp_path, text) == [("DC203", "parallel.device_map.transformer")]


def test_a_pipeline_of_several_pipelines(tmp_path: Path) -> None:
    """PDM-05: diffusers refuses to place them; what their parts are is not in the folder."""
    (tmp_path / "model_index.json").write_text('{"_class_name": "KandinskyV22CombinedPipeline"}', encoding="utf-8")
    text = "version: 1\nmodel: {path: .}\n" + RUN
    done = compiled(tmp_path, text)
    assert [(item.code, dotted(item.path)) for item in done.diagnostics] == [("DC303", "model.path")]
    assert "several pipelines" in done.diagnostics[0].message


def test_a_pipeline_without_a_known_denoiser(tmp_path: Path) -> None:
    (tmp_path / "model_index.json").write_text('{"_class_name": "StableCascadeDecoderPipeline"}', encoding="utf-8")
    done = compiled(tmp_path, "version: 1\nmodel: {path: .}\n" + RUN)
    assert [item.code for item in done.diagnostics] == ["DC303"]
    assert "no denoiser" in done.diagnostics[0].message


@pytest.mark.parametrize(
    ("model", "asked", "made"),
    [
        (WAN, 80, 81),
        (WAN, 81, 81),
        (WAN, 82, 81),
        (WAN, 3, 1),
        (WAN, 1, 1),
        ("Lightricks/LTX-Video", 160, 153),
        ("Lightricks/LTX-Video", 161, 161),
        ("Lightricks/LTX-Video", 8, 1),
        ("genmo/mochi-1-preview", 84, 79),
        ("zai-org/CogVideoX-5b", 48, 45),
        ("black-forest-labs/FLUX.1-dev", 7, 7),
    ],
)
def test_frames_are_those_that_the_pipeline_makes(model: str, asked: int, made: int) -> None:
    """CALL-03: Wan rounds what is no multiple of 4 and 1, the others drop what fills no latent frame."""
    assert made_frames(load_model(model).tokens, asked) == made


def test_the_call_asks_for_the_frames_that_the_recipe_asks_for(tmp_path: Path) -> None:
    """As a script would: LTX-2 makes its sound, and with it the video, by the length that was asked for."""
    text = f"version: 1\nmodel: {{id: {WAN}}}\ndevices: {{gpu: l40s}}\nrun: {{prompts: [a], frames: 80}}\n"
    plan = compiled(tmp_path, text).plan_json
    assert plan is not None
    assert plan["program"]["run"]["call"]["num_frames"] == 80


ROWS = '{"prompt": "a"}\n{"prompt": "b", "width": 2048, "height": 1536}\n{"prompt": "c", "width": 512}\n'


def test_the_largest_row_decides(tmp_path: Path) -> None:
    """A row that is larger than the recipe's own size is what the devices are judged by, and the plan names it."""
    text = HEAD.replace(", per_node: 2", "") + "run: {prompts: rows.jsonl, height: 512, width: 512}\n"
    plan = compiled(tmp_path, text, rows_jsonl=ROWS).plan_json
    alone = compiled(
        tmp_path, HEAD.replace(", per_node: 2", "") + RUN.replace("fox]", "fox], height: 1536, width: 2048")
    )
    assert plan is not None
    assert alone.plan_json is not None
    assert plan["devices"][0]["activation_bytes"] == alone.plan_json["devices"][0]["activation_bytes"]
    decisions = {decision["what"]: decision["chosen"] for decision in plan["decisions"]}
    assert decisions["devices.activation_bytes"] == "picture 1: 2048x1536"
    assert plan["program"]["run"]["call"]["height"] == 512


def test_a_size_that_no_row_has_is_not_counted(tmp_path: Path) -> None:
    text = HEAD.replace(", per_node: 2", "") + "run: {prompts: rows.jsonl, height: 4096, width: 4096}\n"
    rows = '{"prompt": "a", "height": 512, "width": 512}\n{"prompt": "b", "height": 256, "width": 256}\n'
    plan = compiled(tmp_path, text, rows_jsonl=rows).plan_json
    small = compiled(tmp_path, HEAD.replace(", per_node: 2", "") + RUN.replace("fox]", "fox], height: 512, width: 512"))
    assert plan is not None
    assert small.plan_json is not None
    assert plan["devices"][0]["activation_bytes"] == small.plan_json["devices"][0]["activation_bytes"]


def test_a_row_that_does_not_fit_is_named(tmp_path: Path) -> None:
    text = HEAD.replace("h100-sxm-80gb, per_node: 2", "l40s") + "run: {prompts: rows.jsonl, height: 512, width: 512}\n"
    rows = '{"prompt": "a"}\n{"prompt": "b", "height": 8192, "width": 8192}\n'
    (item,) = compiled(tmp_path, text, rows_jsonl=rows).diagnostics
    assert (item.code, dotted(item.path)) == ("DC501", "run.prompts")
    assert item.message.startswith("picture 1: device 0 needs about")


def test_a_column_of_guidance_switches_the_branch_on(tmp_path: Path) -> None:
    """CALL-06: `true_cfg` of a row needs a negative prompt as that of the recipe does; an empty one is given."""
    rows = '{"prompt": "a", "true_cfg": 4.0}\n{"prompt": "b"}\n'
    plan = compiled(tmp_path, HEAD + "run: {prompts: rows.jsonl}\nparallel: {data: 2}\n", rows_jsonl=rows).plan_json
    assert plan is not None
    made = plan["program"]["run"]["rows"]
    assert [row["negative_prompt"] for row in made] == ["", None]
    assert made[0]["args"] == {"true_cfg_scale": 4.0}


def test_neighbours_share_ulysses() -> None:
    """STR-06: the axis that talks most is the fastest one, so its ranks are neighbours in a node."""
    assert AXES.index("data") < AXES.index("ring") < AXES.index("ulysses") < AXES.index("tensor")


def test_a_map_that_names_one_device_splits_nothing(tmp_path: Path) -> None:
    text = HEAD.replace(", per_node: 2", "") + RUN + "parallel: {device_map: {transformer: 0, vae: 0}}\n"
    plan = compiled(tmp_path, text).plan_json
    assert plan is not None
    assert plan["strategy"] == "single"
    assert plan["program"]["devices_per_rank"] == 1


@pytest.mark.parametrize(
    ("limit", "pipelines"),
    [
        (512, ["FluxPipeline", "Flux2Pipeline", "StableDiffusion3Pipeline", "ChromaPipeline", "BriaPipeline"]),
        (1024, ["QwenImagePipeline", "QwenImageEditPipeline", "Kandinsky5T2IPipeline"]),
        (256, ["KolorsPipeline", "OvisImagePipeline"]),
        (0, ["WanPipeline", "LTXPipeline", "HunyuanVideoPipeline", "CogVideoXPipeline"]),
    ],
)
def test_limits_of_the_text(limit: int, pipelines: list[str]) -> None:
    """CALL-04: what the pipelines' own check of the call refuses."""
    from dcompile.facts.pipelines import describe_pipeline

    assert {name: describe_pipeline(name)["text_limit"] for name in pipelines} == dict.fromkeys(pipelines, limit)
