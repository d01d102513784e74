"""`dcompile diff` and `dcompile RECIPE --check`: what moves, and whether a bundle is the one that would be written."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from dcompile.driver import compile_recipe
from dcompile.emit.devices import alike, say_devices
from dcompile.emit.difference import as_written, difference

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "recipes"
TENSOR = RECIPES / "flux1-dev-tensor4.yaml"
ULYSSES = RECIPES / "flux1-dev-ulysses4.yaml"
MAP = RECIPES / "flux1-dev-device-map.yaml"
WRONG = ROOT / "tests" / "golden" / "diagnostics" / "DC401" / "tensor.yaml"


def plan_of(recipe: Path, *overrides: str) -> dict[str, Any]:
    plan = compile_recipe(recipe, overrides).plan_json
    assert plan is not None
    return as_written(plan)


def test_text_says_what_moves_per_device_and_per_step(cli) -> None:
    done = cli("diff", TENSOR, ULYSSES)
    assert (done.code, done.err) == (0, "")
    lines = [line.strip() for line in done.out.splitlines()]
    assert "strategy: tensor -> context" in lines
    assert "mesh: tensor 4 -> ulysses 4" in lines
    assert "transformer: tensor 4 (builtin plan), 10.14 GiB -> ulysses 4, 22.17 GiB" in lines
    at = lines.index("devices 0-3 (4 alike)")
    assert lines[at + 1].split() == ["transformer", "10.14", "GiB", "->", "22.17", "GiB", "+12.03", "GiB"]
    assert lines[at + 2].split() == ["free", "56.86", "GiB", "->", "44.84", "GiB", "-12.03", "GiB"]
    assert "a step: all_reduce: 114 of 2.00 GiB -> -" in lines
    assert any(line.startswith("estimate: a step: ") for line in lines)
    assert not any(line.startswith("program.mesh_axes") for line in lines)


def test_json_has_the_bytes_of_both_plans(cli) -> None:
    found = json.loads(cli("diff", "--format", "json", MAP, TENSOR).out)
    a, b = plan_of(MAP), plan_of(TENSOR)
    assert found["is_different"] is True
    assert [found[side]["name"] for side in "ab"] == ["flux1-dev-device-map", "flux1-dev-tensor4"]
    assert [device["device"] for device in found["devices"]] == [0, 1, 2, 3]
    assert [device["only_in"] for device in found["devices"]] == [None, None, None, "b"]
    for device in found["devices"]:
        for side, plan in (("a", a), ("b", b)):
            held = {one["device"]: one for one in plan["devices"]}.get(device["device"])
            for key in ("memory_bytes", "weight_bytes", "activation_bytes", "free_bytes"):
                if key in device:
                    assert device[key][side] == (held and held[key])
            for part in device["components"]:
                kept = held["components"].get(part["name"]) if held else None
                assert part[side] == (kept and kept["weight_bytes"])
    assert found["traffic"] == [
        {"collective": "transfer", "a": a["traffic"]["transfer"], "b": None},
        {"collective": "all_reduce", "a": None, "b": b["traffic"]["all_reduce"]},
    ]
    step = next(time for time in found["estimate"] if time["what"] == "step_seconds")
    assert step == {"what": "step_seconds", **{s: p["estimate"]["step_seconds"] for s, p in (("a", a), ("b", b))}}


def test_exit_codes(cli, tmp_path: Path) -> None:
    assert cli("diff", TENSOR, TENSOR, "--exit-code").code == 0
    assert cli("diff", TENSOR, ULYSSES).code == 0
    assert cli("diff", TENSOR, ULYSSES, "--exit-code").code == 3
    assert cli("diff", TENSOR, ULYSSES, "--exit-code", "--format", "json").code == 3
    wrong = cli("diff", TENSOR, WRONG, "--exit-code")
    assert (wrong.code, wrong.out) == (1, "")
    assert "DC401" in wrong.err
    (tmp_path / "broken.json").write_text('{"format_version": 1', encoding="utf-8")
    (tmp_path / "other.json").write_text('{"format_version": 2}', encoding="utf-8")
    for file in ("missing.yaml", "missing.json", tmp_path, "broken.json", "other.json"):
        done = cli("diff", WRONG if file == "missing.yaml" else TENSOR, file)
        assert (done.code, done.out) == (2, ""), file
        assert done.err.splitlines()[-1].startswith("dcompile: ")
        assert str(file) in done.err


def test_a_plan_a_bundle_and_its_recipe_are_the_same(cli) -> None:
    assert cli(TENSOR).code == 0
    for written in ("build/flux1-dev-tensor4", "build/flux1-dev-tensor4/plan.json"):
        done = cli("diff", TENSOR, written, "--exit-code")
        assert done.code == 0
        assert "no difference" in done.out


def test_the_name_and_a_default_that_is_written_out_are_no_difference(cli, tmp_path: Path) -> None:
    text = TENSOR.read_text(encoding="utf-8")
    (tmp_path / "other.yaml").write_text(text.replace("run:", "run:\n  batch: 1"), encoding="utf-8")
    assert cli("diff", TENSOR, "other.yaml", "--exit-code").code == 0


@pytest.mark.parametrize(
    ("override", "path"),
    [
        ("run.steps=30", "program.run.call.num_inference_steps"),
        ("run.prompts=[a fox]", "program.run.rows[0].prompt"),
        ("run.args={max_sequence_length: 256}", "program.run.call.max_sequence_length"),
        ("output.format=jpg", "program.output.format"),
        ('model.revision="v1"', "program.pipeline.revision"),
        ("launch.timeout_seconds=77", "program.timeout_seconds"),
    ],
)
def test_whatever_else_differs_is_named(cli, override: str, path: str, tmp_path: Path) -> None:
    a, b = plan_of(TENSOR), plan_of(TENSOR, override)
    found = difference(a, b)
    assert found["is_different"]
    assert path in [other["path"] for other in found["other"]]
    (tmp_path / "b.json").write_text(json.dumps(b), encoding="utf-8")
    assert f"  {path}: " in cli("diff", TENSOR, "b.json").out


def test_every_change_of_a_value_is_a_difference() -> None:
    """Each leaf of the plan but its name, digest, versions and reasons counts."""
    plan = plan_of(RECIPES / "quickstart-data-tensor.yaml")

    def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        if isinstance(value, dict) and value:
            return [leaf for key, item in value.items() for leaf in leaves(item, (*path, key))]
        if isinstance(value, list) and value:
            return [leaf for at, item in enumerate(value) for leaf in leaves(item, (*path, at))]
        return [path]

    silent = set()
    for path in leaves(plan):
        other = copy.deepcopy(plan)
        place = other
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = "changed" if isinstance(place[path[-1]], str) else 987654321
        if not difference(plan, other)["is_different"]:
            silent.add(path[0] if len(path) == 1 else path[-1] if isinstance(path[-1], str) else path[-2])
    assert silent == {"name", "recipe_digest", "tool_version", "because", "alternatives"}


def test_a_value_of_null_is_not_an_absent_one() -> None:
    plan = plan_of(TENSOR)
    other = copy.deepcopy(plan)
    other["program"]["run"]["call"]["latents"] = None
    (found,) = difference(plan, other)["other"]
    assert found == {"path": "program.run.call.latents", "only_in": "b", "a": None, "b": None}


def test_what_a_plan_says_cannot_reach_the_terminal(cli, tmp_path: Path) -> None:
    plan = plan_of(TENSOR)
    plan["program"]["run"]["rows"][0]["prompt"] = "\x1b[2J a fox"
    (tmp_path / "b.json").write_text(json.dumps(plan), encoding="utf-8")
    done = cli("diff", TENSOR, "b.json")
    assert "a fox" in done.out
    assert "\x1b" not in done.out


def test_many_differences_are_cut_and_json_has_all(cli, tmp_path: Path) -> None:
    prompts = [f"picture {at}" for at in range(50)]
    a, b = (
        plan_of(TENSOR, f"run.prompts={json.dumps(texts)}") for texts in (prompts, [f"{text}!" for text in prompts])
    )
    for name, plan in (("a.json", a), ("b.json", b)):
        (tmp_path / name).write_text(json.dumps(plan), encoding="utf-8")
    assert "  and 30 more values of the plan" in cli("diff", "a.json", "b.json").out
    assert len(json.loads(cli("diff", "a.json", "b.json", "--format", "json").out)["other"]) == 50


def test_devices_that_are_alike_are_one_line() -> None:
    devices = [{"rank": n, "node": 0, "device": n, "free_bytes": 7 if n in (5, 6) else 1} for n in range(64)]
    assert [say_devices(numbers) for _, numbers in alike(devices)] == [
        "devices 0-4, 7-63 (62 alike)",
        "devices 5, 6 (2 alike)",
    ]
    assert say_devices((3,)) == "device 3"


def test_check_of_a_bundle(cli, tmp_path: Path) -> None:
    absent = cli(TENSOR, "--check")
    assert absent.code == 3
    assert absent.out.startswith("build/flux1-dev-tensor4/ is out of date: plan.json, ")
    assert absent.out.rstrip().endswith("are missing")
    assert list(tmp_path.iterdir()) == []
    assert cli(TENSOR).code == 0
    current = cli(TENSOR, "--check")
    assert (current.code, current.out) == (0, "build/flux1-dev-tensor4/ is current\n")
    folder = tmp_path / "build" / "flux1-dev-tensor4"
    (folder / "run.py").unlink()
    (folder / "plan.json").write_text("{}", encoding="utf-8")
    before = sorted((file, file.stat().st_mtime_ns) for file in folder.rglob("*"))
    stale = cli("compile", TENSOR, "--check")
    assert stale.code == 3
    assert stale.out == "build/flux1-dev-tensor4/ is out of date: plan.json differs; run.py is missing\n"
    assert "dcompile diff" in stale.err
    assert sorted((file, file.stat().st_mtime_ns) for file in folder.rglob("*")) == before
    assert cli(TENSOR, "--check", "--set", "run.seed=7").code == 3
    assert cli(WRONG, "--check").code == 1
    assert cli("missing.yaml", "--check").code == 2
