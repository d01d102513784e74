"""Plans: exact bytes, shares, strategies, and the same bytes of `plan.json` every time."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from dcompile.cli.summary import summary_lines
from dcompile.core.plan_schema import plan_schema
from dcompile.driver import Compiled, compile_recipe
from dcompile.emit.plan_json import canonical_json
from dcompile.plan.build import divide

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "recipes"
SCHEMAS = ROOT / "schemas"
FILES = sorted(RECIPES.glob("*.yaml"))

# Reference values: bytes of the denoiser on each device in bfloat16, by the library's own plan.
WHOLE = {"flux1-dev-tensor4": 23_802_816_640, "flux2-dev-tensor8": 64_446_562_304, "qwen-image-tensor4": 40_860_802_176}
SHARDS = {
    ("flux1-dev-tensor4", 2): 15_194_470_528,
    ("flux1-dev-tensor4", 4): 10_890_297_472,
    ("flux1-dev-tensor4", 8): 8_738_210_944,
    ("flux2-dev-tensor8", 4): 17_336_139_776,
    ("flux2-dev-tensor8", 8): 9_484_402_688,
    ("qwen-image-tensor4", 4): 20_472_614_016,
    ("qwen-image-tensor4", 8): 17_074_582_656,
}

FLUX = """
version: 1
model: {id: black-forest-labs/FLUX.1-dev, dtype: bfloat16}
devices: {gpu: h200-sxm, per_node: 8}
run: {prompts: [a red fox], height: 1024, width: 1024}
"""


def plan_of(compiled: Compiled) -> dict[str, Any]:
    assert compiled.is_valid, compiled.diagnostics
    assert compiled.plan_json is not None
    return compiled.plan_json


def planned(name: str, *overrides: str) -> dict[str, Any]:
    return plan_of(compile_recipe(RECIPES / f"{name}.yaml", overrides))


def compiled_flux(folder: Path, *overrides: str, text: str = FLUX) -> Compiled:
    file = folder / "recipe.yaml"
    file.write_text(text, encoding="utf-8")
    return compile_recipe(file, overrides)


def flux(folder: Path, *overrides: str, text: str = FLUX) -> dict[str, Any]:
    return plan_of(compiled_flux(folder, *overrides, text=text))


@pytest.mark.parametrize(("recipe", "degree"), SHARDS)
def test_shards_are_exact_to_the_byte(recipe: str, degree: int) -> None:
    plan = planned(recipe, f"parallel.tensor.degree={degree}", f"devices.per_node={degree}", "devices.gpu=b200-sxm")
    held = [device["components"]["transformer"]["weight_bytes"] for device in plan["devices"]]
    assert held == [SHARDS[recipe, degree]] * degree
    transformer = plan["components"]["transformer"]
    assert transformer["weight_bytes"] == SHARDS[recipe, degree]
    assert transformer["parameters"] * 2 == WHOLE[recipe]
    assert transformer["layout"] == {"kind": "tensor", "axis": "tensor", "degree": degree, "plan": "builtin"}


@pytest.mark.parametrize("recipe", WHOLE)
def test_whole_models_are_exact_to_the_byte(recipe: str) -> None:
    plan = planned(recipe, "parallel={}", "devices={gpu: b200-sxm}")
    assert [device["components"]["transformer"]["weight_bytes"] for device in plan["devices"]] == [WHOLE[recipe]]
    assert plan["traffic"] == {}


def test_every_device_adds_up() -> None:
    for file in FILES:
        for device in plan_of(compile_recipe(file))["devices"]:
            assert device["weight_bytes"] == sum(part["weight_bytes"] for part in device["components"].values())
            if device["memory_bytes"] is not None:
                used = device["weight_bytes"] + device["activation_bytes"] + device["reserve_bytes"]
                assert device["free_bytes"] == device["memory_bytes"] - used >= 0


def test_traffic_of_a_tensor_parallel_step() -> None:
    plan = planned("flux1-dev-tensor4", "parallel.tensor.degree=8", "devices.per_node=8")
    assert plan["traffic"]["all_reduce"] == {"calls": 114, "bytes": 2052 * 2**20}


def test_traffic_of_ulysses() -> None:
    moved = planned("flux1-dev-ulysses4")["traffic"]["all_to_all"]
    assert moved == {"calls": 4 * 57, "bytes": 4 * 57 * (4096 + 512) // 4 * 3072 * 2}


@pytest.mark.parametrize(
    ("count", "replicas", "shares"),
    [
        (17, 8, [3, 2, 2, 2, 2, 2, 2, 2]),
        (3, 8, [1, 1, 1, 0, 0, 0, 0, 0]),
        (16, 8, [2] * 8),
        (1, 1, [1]),
        (0, 2, [0, 0]),
    ],
)
def test_shares(count: int, replicas: int, shares: list[int]) -> None:
    divided = divide(count, replicas)
    assert [len(share) for share in divided] == shares
    assert [row for share in divided for row in share] == list(range(count))


@pytest.mark.parametrize(("count", "shares"), [(17, [3, 2, 2, 2, 2, 2, 2, 2]), (3, [1, 1, 1, 0, 0, 0, 0, 0])])
def test_shares_in_the_plan(tmp_path: Path, count: int, shares: list[int]) -> None:
    prompts = [f"picture {i}" for i in range(count)]
    plan = flux(tmp_path, "parallel.data=8", f"run.prompts={json.dumps(prompts)}", "run.seed=5")
    run = plan["program"]["run"]
    assert [len(share) for share in run["shares"]] == shares
    assert [row["prompt"] for row in run["rows"]] == prompts
    assert [row["seed"] for row in run["rows"]] == list(range(5, 5 + count))
    assert len(plan["devices"]) == 8


@pytest.mark.parametrize(
    ("parallel", "strategy", "mesh"),
    [
        ("{}", "single", {}),
        ("{data: 1, tensor: 1, context: {ulysses: 1}}", "single", {}),
        ("{data: 2}", "data", {"data": 2}),
        ("{device_map: balanced}", "device_map", {}),
        ("{device_map: {transformer: [0, 1], text_encoder_2: 1}}", "device_map", {}),
        ("{components: {vae: {device: 1}}}", "device_map", {}),
        ("{tensor: 2}", "tensor", {"tensor": 2}),
        ("{components: {transformer: {tensor: 2}}}", "tensor", {"tensor": 2}),
        ("{context: {ulysses: 2}}", "context", {"ulysses": 2}),
        ("{context: {ring: 2}}", "context", {"ring": 2}),
        ("{context: {ulysses: 2, ring: 4}}", "context", {"ring": 4, "ulysses": 2}),
        ("{tensor: 4, data: 2}", "hybrid", {"data": 2, "tensor": 4}),
        ("{context: {ulysses: 2, ring: 2}, data: 2}", "hybrid", {"data": 2, "ring": 2, "ulysses": 2}),
        ("{device_map: balanced, data: 2}", "hybrid", {"data": 2}),
    ],
)
def test_strategy_and_mesh(tmp_path: Path, parallel: str, strategy: str, mesh: dict[str, int]) -> None:
    plan = flux(tmp_path, f"parallel={parallel}", "run.prompts=[a, b]")
    assert plan["strategy"] == strategy
    assert list(plan["mesh"].items()) == list(mesh.items())
    assert plan["program"]["mesh_axes"] == [[axis, degree] for axis, degree in mesh.items()]
    ranks = 1
    for degree in mesh.values():
        ranks *= degree
    assert plan["program"]["ranks"] == ranks
    assert len(plan["devices"]) == ranks * plan["program"]["devices_per_rank"]
    assert [device["device"] for device in plan["devices"]] == list(range(len(plan["devices"])))


def test_a_cut_component_lies_on_its_devices_in_order() -> None:
    file = RECIPES / "flux1-dev-device-map.yaml"
    plan = plan_of(
        compile_recipe(file, ["parallel.device_map={transformer: [2, 0], text_encoder: 1, text_encoder_2: 1, vae: 1}"])
    )
    blocks = plan["program"]["components"]["transformer"]["blocks"]
    order = [blocks[f"transformer_blocks.{i}"] for i in range(19)]
    order += [blocks[f"single_transformer_blocks.{i}"] for i in range(38)]
    assert order == sorted(order, reverse=True)
    assert set(order) == {0, 2}
    assert blocks["x_embedder"] == 2
    held = [device["components"].get("transformer", {"weight_bytes": 0})["weight_bytes"] for device in plan["devices"]]
    assert held[1] == 0
    assert sum(held) == WHOLE["flux1-dev-tensor4"]
    assert abs(held[0] - held[2]) < 2 * 340 * 2**20  # at most about one double block apart


def shuffled(value: Any) -> Any:
    """The same mapping with its keys in the opposite order, at every depth."""
    if isinstance(value, dict):
        return {key: shuffled(value[key]) for key in reversed(value)}
    return [shuffled(item) for item in value] if isinstance(value, list) else value


BUSY = """
version: 1
requires: {torch: ">=2.13", diffusers: ">=0.42"}
model:
  id: stabilityai/stable-diffusion-3-medium-diffusers
  scheduler: {shift: 2.5, base_shift: 0.25}
components:
  vae: {tiling: true, dtype: bfloat16}
  transformer: {attention: native, dtype: bfloat16}
  text_encoder_3: null
devices: {gpu: h200-sxm, per_node: 4}
parallel:
  data: 2
  device_map: {vae: 1, transformer: 0}
run:
  prompts: [a red fox, a boat]
  height: 1024
  args: {max_sequence_length: 256, joint_attention_kwargs: {scale: 0.123456789, alpha: 1}}
  seed: 3
launch:
  env: {NCCL_DEBUG: WARN, A_NAME: b}
"""


@pytest.mark.parametrize("text", [FLUX, BUSY], ids=["short", "busy"])
def test_order_of_keys_and_place_of_file_do_not_matter(tmp_path: Path, text: str) -> None:
    here, there = tmp_path / "here", tmp_path / "far" / "away"
    here.mkdir()
    there.mkdir(parents=True)
    other = yaml.safe_dump(shuffled(yaml.safe_load(text)), sort_keys=False)
    assert list(yaml.safe_load(other)) == list(reversed(yaml.safe_load(text)))
    once, again, moved = (
        compiled_flux(folder, text=written).bundle for folder, written in ((here, text), (here, text), (there, other))
    )
    assert once is not None
    assert once == again == moved
    assert str(tmp_path) not in "".join(once.values())


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_recipes_compile_to_equal_valid_plans(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = compile_recipe(file)
    assert first.diagnostics == ()
    plan = plan_of(first)
    text = canonical_json(plan)
    jsonschema.Draft202012Validator(plan_schema()).validate(json.loads(text))
    monkeypatch.chdir(tmp_path)
    assert canonical_json(plan_of(compile_recipe(file))) == text
    assert str(ROOT) not in text
    assert text.endswith("}\n")
    assert "\r" not in text
    assert list(plan["components"]) == sorted(plan["components"])
    lines = summary_lines(plan)
    assert lines[0].startswith(f"{file.stem}: {plan['strategy']}")
    assert len(lines) < 70
    used = sum(device["weight_bytes"] > 0 for device in plan["devices"])
    assert used == len(plan["devices"])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_recipes_fit_the_schema_and_say_what_they_are_for(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    schema = json.loads((SCHEMAS / "recipe.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(yaml.safe_load(text))
    comments = [line for line in text.splitlines() if line.startswith("# ") and "yaml-language-server" not in line]
    assert len(comments) == 2
    assert comments[1] in (f"# dcompile recipes/{file.name}", f"# dcompile run recipes/{file.name}")


def test_the_plan_schema_is_current() -> None:
    made = json.dumps(plan_schema(), indent=2, ensure_ascii=False) + "\n"
    jsonschema.Draft202012Validator.check_schema(plan_schema())
    assert (SCHEMAS / "plan.schema.json").read_text(encoding="utf-8") == made, (
        "stale: run `dcompile schema plan > schemas/plan.schema.json`"
    )


def test_the_plan_schema_refuses_what_it_does_not_know() -> None:
    plan = planned("flux1-dev-tensor4")
    for change in ({"strategy": "magic"}, {"surprise": 1}, {"recipe_digest": "sha256:0"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.Draft202012Validator(plan_schema()).validate(json.loads(json.dumps({**plan, **change})))


def test_a_clip_has_its_models_frames_a_second_unless_the_recipe_says_otherwise(tmp_path: Path) -> None:
    text = "version: 1\nmodel: {id: Wan-AI/Wan2.2-TI2V-5B-Diffusers}\ndevices: {gpu: h200-sxm}\n"
    text += "run: {prompts: [a fox], frames: 17}\n"
    (tmp_path / "r.yaml").write_text(text, encoding="utf-8")
    left_open = plan_of(compile_recipe(tmp_path / "r.yaml"))
    assert left_open["program"]["output"]["fps"] == 24
    because = {item["what"]: (item["chosen"], item["because"]) for item in left_open["decisions"]}
    assert because["output.fps"] == ("24", "what Wan-AI/Wan2.2-TI2V-5B-Diffusers is published with")
    given = plan_of(compile_recipe(tmp_path / "r.yaml", ["output.fps=12"]))
    assert given["program"]["output"]["fps"] == 12
    assert "output.fps" not in {item["what"] for item in given["decisions"]}
    assert flux(tmp_path)["program"]["output"]["fps"] is None


def test_what_is_left_open_is_a_decision(tmp_path: Path) -> None:
    text = FLUX.replace(", dtype: bfloat16", "").replace(", height: 1024, width: 1024", "")
    decisions = {decision["what"]: decision for decision in flux(tmp_path, text=text)["decisions"]}
    assert decisions["run.height"]["chosen"] == "1024"
    assert decisions["run.steps"]["chosen"] == "28"
    assert decisions["components.transformer.dtype"]["chosen"] == "bfloat16"
    assert decisions["components.transformer.attention"]["chosen"] == "native"
    assert "_native_cudnn" in decisions["components.transformer.attention"]["alternatives"]
    assert decisions["run.seed"]["chosen"] == "0"
    assert all(decision["because"] for decision in decisions.values())


def test_the_bundle_holds_no_path_of_this_machine(tmp_path: Path) -> None:
    files = compiled_flux(tmp_path, "parallel.tensor=2").bundle
    assert files is not None
    assert set(files) == {"plan.json", "report.html", "run.py", "launch/torchrun.sh"}
    assert "--nproc-per-node 2" in files["launch/torchrun.sh"]
    compile(files["run.py"], "run.py", "exec")
    assert str(tmp_path) not in "".join(files.values())


def test_a_size_that_nobody_knows_is_said_to_be_unknown(
    compiled: Callable[..., Compiled], pipeline_folder: Callable[..., Path]
) -> None:
    """HunyuanVideo 1.5 takes its size from a table, which no facts have; a plan names the size that it passes."""
    pipeline_folder("HunyuanVideo15Pipeline", "HunyuanVideo15Transformer3DModel")
    made = compiled(
        "version: 1\nmodel: {path: model}\ndevices: {kind: cpu}\nrun: {prompts: [a fox], seed: 1, width: 640}\n"
    )
    assert made.plan is not None, made.diagnostics
    because = {one.what: (one.chosen, one.because) for one in made.plan.decisions}
    assert because["run.height"] == ("1024", "the default of HunyuanVideo15Pipeline is not known")
    assert because["run.frames"] == ("121", "the default of HunyuanVideo15Pipeline")
    assert "run.width" not in because
