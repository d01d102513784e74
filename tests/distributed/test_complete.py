"""A run that has nothing to make ends at once, and what a person has to know about the pictures is said."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tiny_models as tiny
from dcompile.cli.main import main
from dcompile.driver import compile_recipe
from dcompile.runtime import generate, launch, outputs
from dcompile.runtime.launch import Outcome, perform, run_plan
from dcompile.runtime.made import Made
from dcompile.runtime.todo import todo_of
from safetensors.torch import load_file, save_file

RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("quickstart*.yaml"))


def finished(plan: dict[str, Any], root: Path) -> Path:
    """The output folder of a plan as a run leaves it; the files hold their own names."""
    program = plan["program"]
    todo, folder = todo_of(program, root), Path(program["output"]["dir"])
    folder.mkdir(parents=True)
    entries = []
    for row in program["run"]["rows"]:
        name = todo.names[row["index"]]
        (folder / name).write_text(name, encoding="utf-8")
        made = {"prompt": row["prompt"], "seed": row["seed"], "file": name, "plan_digest": "sha256:first"}
        sums = {"sha256": outputs.file_digest(folder / name), "content_digest": todo.digests[row["index"]]}
        entries.append({"index": row["index"], **made, **sums})
    (folder / "manifest.json").write_text(json.dumps(entries), encoding="utf-8")
    return folder


def started(plan: dict[str, Any], root: Path, folder: Path, progress: str = "plain") -> Outcome:
    """What comes of a plan where no rank can be started."""
    return perform(tiny.write_plan(plan, folder), root, overwrite=False, progress=progress, traceback=False)


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("a rank was started")

    if "slow" not in request.keywords:
        monkeypatch.setattr(launch, "start_ranks", refuse)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_no_rank_is_started_where_every_picture_is_complete(
    recipe: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plan = compile_recipe(recipe).plan_json
    assert plan is not None
    plan["program"]["output"]["dir"] = str(tmp_path / "out")
    folder = finished(plan, tmp_path)
    count = len(plan["program"]["run"]["rows"])
    outcome = started(plan, tmp_path, tmp_path)
    assert (outcome.code, outcome.made) == (0, Made(0, count))
    said = capfd.readouterr().err
    assert said == f"dcompile: all {count} pictures are complete already in {folder}/; --overwrite makes them again\n"
    manifest = json.loads((folder / "manifest.json").read_text())
    assert [entry["plan_digest"] for entry in manifest] == ["sha256:first"] * count


def test_what_is_there_is_left_as_it_is(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    plan = tiny.plan("no-such-folder", rows=2, out=tmp_path / "out")
    folder = finished(plan, tmp_path)
    started(plan, tmp_path, tmp_path, "none")
    stamps = {file.name: file.stat().st_mtime_ns for file in folder.iterdir()}
    assert started(plan, tmp_path, tmp_path, "none").code == 0
    assert {file.name: file.stat().st_mtime_ns for file in folder.iterdir()} == stamps
    assert capfd.readouterr().err == ""


def test_a_job_of_fewer_pictures_gets_a_manifest_of_its_own(tmp_path: Path) -> None:
    plan = tiny.plan("no-such-folder", rows=3, out=tmp_path / "out")
    folder = finished(plan, tmp_path)
    rows = plan["program"]["run"]["rows"]
    plan["program"]["run"]["rows"] = rows[:2]
    plan["program"]["run"]["shares"] = [[0, 1]]
    assert started(plan, tmp_path, tmp_path).made == Made(0, 2)
    assert [entry["index"] for entry in json.loads((folder / "manifest.json").read_text())] == [0, 1]
    assert (folder / "00002.png").exists()


@pytest.mark.parametrize("harm", ["torn", "gone", "seed", "manifest"])
def test_one_that_is_not_complete_starts_the_ranks(harm: str, tmp_path: Path) -> None:
    plan = tiny.plan("no-such-folder", rows=2, out=tmp_path / "out")
    folder = finished(plan, tmp_path)
    if harm == "torn":
        (folder / "00001.png").write_text("torn", encoding="utf-8")
    elif harm == "gone":
        (folder / "00001.png").unlink()
    elif harm == "seed":
        plan["program"]["run"]["rows"][1]["seed"] = 7
    else:
        (folder / "manifest.json").write_text("[", encoding="utf-8")
    with pytest.raises(AssertionError, match="a rank was started"):
        started(plan, tmp_path, tmp_path)
    pending = todo_of(plan["program"], tmp_path).pending(folder, overwrite=False)
    assert pending == (frozenset({0, 1}) if harm == "manifest" else frozenset({1}))
    assert todo_of(plan["program"], tmp_path).pending(folder, overwrite=True) == frozenset({0, 1})


def test_a_folder_that_cannot_be_written_is_told_before_a_rank_starts(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").write_text("a file", encoding="utf-8")
    outcome = started(tiny.plan("no-such-folder", rows=2, out=tmp_path / "out"), tmp_path, tmp_path)
    assert outcome.code == 4
    said = f"dcompile: cannot write to the output folder `{tmp_path / 'out'}`: File exists\n"
    assert capfd.readouterr().err == said


SCRIPT = (
    "import sys\nfrom pathlib import Path\nfrom dcompile.runtime.launch import run_plan\n"
    "sys.exit(run_plan(Path(sys.argv[1]), Path(sys.argv[2]), progress='plain'))\n"
)


@pytest.mark.slow
def test_under_torchrun_no_rank_loads_the_model(tmp_path: Path) -> None:
    """The model is not there: a rank that loaded it would fail, and the other would wait for it."""
    plan = tiny.plan("no-such-folder", axes={"data": 2}, rows=3, out=tmp_path / "out")
    finished(plan, tmp_path)
    path = tiny.write_plan(plan, tmp_path)
    script = tmp_path / "run.py"
    script.write_text(SCRIPT, encoding="utf-8")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "localhost"]
    command += ["--nproc-per-node", "2", str(script), str(path), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("all 3 pictures are complete already") == 1
    assert run_plan(path, tmp_path, overwrite=True, progress="none") == 4


class Checker:
    """A pipeline whose safety checker has made the second picture black, as those of diffusers say it."""

    def __call__(self, prompt: Any, generator: Any, output_type: str = "pil") -> Any:
        flags = {"nsfw_content_detected": [False, True]}
        return type("Output", (), {"images": ["a picture", "a black one"], **flags})


def test_what_the_safety_checker_did_is_known() -> None:
    rows = [{"prompt": "a", "negative_prompt": None, "seed": seed, "args": {}} for seed in range(2)]
    assert generate.make_checked(Checker(), rows, {}, "png") == (["a picture", "a black one"], [False, True])
    entries = [{"file": "a.png"}, *({"file": f"{index}.png", outputs.BLACKENED: True} for index in range(12))]
    assert outputs.say_blackened(entries[:1]) == ""
    assert outputs.say_blackened(entries[:2]) == "the model's safety checker made 1 of 2 pictures black: 0.png"
    assert outputs.say_blackened(entries).endswith("12 of 13 pictures black: " + entry_names(10) + " and 2 more")


def entry_names(count: int) -> str:
    return ", ".join(f"{index}.png" for index in range(count))


@pytest.mark.slow
def test_pictures_that_the_safety_checker_blackened_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from oracle.zoo import sd

    sd.save(tmp_path / "sd")
    (weights,) = (tmp_path / "sd" / "safety_checker").glob("*.safetensors")
    stored = load_file(weights)
    stored["concept_embeds_weights"].fill_(-1.0)  # every picture is nearer than that to every concept
    save_file(stored, weights, metadata={"format": "pt"})
    monkeypatch.chdir(tmp_path)
    recipe = "version: 1\nmodel: {path: sd, dtype: float32}\ndevices: {kind: cpu}\n"
    recipe += "run: {prompts: [red apple, green tree], height: 32, width: 32, steps: 2, seed: 1}\n"
    Path("r.yaml").write_text(recipe, encoding="utf-8")
    said = "dcompile: the model's safety checker made 2 of 2 pictures black: 00000.png, 00001.png\n"
    for _ in range(2):
        assert main(["run", "r.yaml", "--progress", "none"]) == 0
        assert capfd.readouterr().err.endswith(said)
    manifest = json.loads(Path("out/manifest.json").read_text())
    assert [entry["nsfw_content_detected"] for entry in manifest] == [True, True]
