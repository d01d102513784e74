"""`--format json` of the commands that compile, run and show a recipe: one object on stdout and nothing else there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from dcompile.cli import environment
from dcompile.runtime import launch
from dcompile.runtime.errors import RankError
from dcompile.runtime.launch import Outcome
from dcompile.runtime.made import Made

ROOT = Path(__file__).parents[2]
FLUX = str(ROOT / "recipes" / "flux1-dev-tensor4.yaml")
WRONG = str(ROOT / "tests" / "golden" / "diagnostics" / "DC401" / "tensor.yaml")
WARNS = str(ROOT / "tests" / "golden" / "diagnostics" / "DC408" / "half.yaml")


def test_a_recipe_that_compiles(cli: Any, tmp_path: Path) -> None:
    done = cli(FLUX, "--format", "json")
    found = json.loads(done.out)
    assert (done.code, done.err, found["status"], found["findings"]) == (0, "", "written", [])
    assert found["folder"] == "build/flux1-dev-tensor4"
    assert {Path(file).name for file in found["files"]} == {"plan.json", "run.py", "torchrun.sh", "report.html"}
    plan = json.loads(Path(found["files"][0]).read_text(encoding="utf-8"))
    for key in ("name", "strategy", "mesh", "devices", "traffic", "estimate"):
        assert found[key] == plan[key]
    assert all(Path(file).is_file() for file in found["files"])
    assert (found["ranks"], found["pictures"], found["output"]["dir"]) == (4, 1, "out/flux1-dev-tensor4")
    current = cli(FLUX, "--check", "--format", "json")
    assert (current.code, json.loads(current.out)["status"]) == (0, "current")
    Path(found["files"][1]).unlink()
    stale = cli(FLUX, "--check", "--format", "json")
    assert (stale.code, json.loads(stale.out)["status"], json.loads(stale.out)["missing"]) == (
        3,
        "out of date",
        ["run.py"],
    )


@pytest.mark.parametrize("command", [("compile",), ("compile", "--check"), ("run",)])
def test_a_recipe_that_is_wrong(cli: Any, command: tuple[str, ...]) -> None:
    checked = json.loads(cli("check", WRONG, "--format", "json").out)
    done = cli(*command, WRONG, "--format", "json")
    assert done.code == 1
    assert json.loads(done.out) == {"status": "wrong", "findings": checked}
    assert not Path("build").exists()


def test_warnings_are_part_of_the_object(cli: Any) -> None:
    found = json.loads(cli(WARNS, "--format", "json").out)
    assert (found["status"], [item["code"] for item in found["findings"]]) == ("written", ["DC408"])


def test_config(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("model: {id: black-forest-labs/FLUX.1-dev}\n", encoding="utf-8")
    text = "version: 1\nextends: base.yaml\ndevices: {kind: cpu}\nrun:\n  prompts: [a fox]\n"
    (tmp_path / "r.yaml").write_text(text, encoding="utf-8")
    done = cli("config", "r.yaml", "--set", "run.seed=7", "--format", "json")
    found = json.loads(done.out)
    assert (done.code, done.err) == (0, "")
    assert (found["recipe"]["run"]["seed"], found["recipe"]["output"]["dir"]) == (7, "out")
    origins = found["origins"]
    assert origins["run.seed"] == {"from": "--set"}
    assert origins["output.dir"] == {"from": "default"}
    assert origins["run.prompts[0]"] == {"from": "file", "file": "r.yaml", "line": 5}
    assert (origins["model.id"]["file"], origins["model.id"]["line"]) == ("base.yaml", 1)
    (tmp_path / "r.yaml").write_text("version: 1\nmodl: {}\n", encoding="utf-8")
    wrong = cli("config", "r.yaml", "--format", "json")
    assert wrong.code == 1
    assert json.loads(wrong.out)["recipe"] is None
    assert json.loads(wrong.out)["findings"]


@pytest.mark.parametrize(
    ("outcome", "status", "told"),
    [
        (Outcome(0, 1.5, Made(3, 1, ("a.png",))), "done", (3, 1, ["a.png"], None)),
        (Outcome(130, 1.5), "interrupted", (None, None, [], None)),
        (
            Outcome(4, 1.5, fault=RankError(1, 0.0, "the disk is full", "", False)),
            "failed",
            (None, None, [], {"rank": 1, "message": "the disk is full"}),
        ),
    ],
)
def test_a_run_tells_what_came_of_it(
    cli: Any, monkeypatch: pytest.MonkeyPatch, outcome: Outcome, status: str, told: tuple[Any, ...]
) -> None:
    def perform(*_: Any, **__: Any) -> Outcome:
        print("a library speaks")
        return outcome

    monkeypatch.setattr(launch, "perform", perform)
    monkeypatch.setattr(environment, "missing_packages", lambda _: [])
    monkeypatch.setattr(environment, "other_versions", lambda _: [])
    done = cli("run", FLUX, "--format", "json")
    found = json.loads(done.out)
    assert (done.code, found["status"], found["seconds"]) == (outcome.code, status, 1.5)
    assert (found["made"], found["skipped"], found["blackened"], found["error"]) == told
    assert found["output"]["dir"] == "out/flux1-dev-tensor4"
    assert found["output"]["manifest"] == "out/flux1-dev-tensor4/manifest.json"
    assert "a library speaks" in done.err


def test_a_run_that_cannot_be_here(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "missing_packages", lambda _: ["dcompile[run]"])
    done = cli("run", WARNS, "--format", "json")
    found = json.loads(done.out)
    assert (done.code, found["status"]) == (2, "refused")
    assert "pip install" in found["error"]["message"]
    assert "DC408" in done.err.partition("dcompile:")[0]
    assert [item["code"] for item in found["findings"]] == ["DC408"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["quickstart", "quickstart-data"])
def test_a_run_of_the_quickstart(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="it runs a pipeline")
    command = [sys.executable, "-m", "dcompile.cli.main", "run", str(ROOT / "recipes" / f"{name}.yaml")]
    results = []
    for _ in range(2):
        done = subprocess.run(
            [*command, "--format", "json"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == 0, done.stderr
        results.append(json.loads(done.stdout))
    count = results[0]["pictures"]
    assert [(one["status"], one["made"], one["skipped"]) for one in results] == [("done", count, 0), ("done", 0, count)]
    manifest = json.loads((tmp_path / results[0]["output"]["manifest"]).read_text(encoding="utf-8"))
    assert len(manifest) == count
    assert results[1]["seconds"] < results[0]["seconds"]
