"""The command line: exit codes, streams, formats."""

from __future__ import annotations

import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from dcompile.cli import render
from dcompile.cli.main import COMMANDS, main
from dcompile.facts.folder import known_classes
from dcompile.facts.registry import MODELS, known_models, known_versions, load_model

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "golden" / "diagnostics"
FLUX = str(ROOT / "recipes" / "flux1-dev-tensor4.yaml")
WRONG = str(CASES / "DC401" / "tensor.yaml")
WARNS = str(CASES / "DC408" / "half.yaml")
ADVISES = str(CASES / "DC603" / "pcie.yaml")
KEYS = [
    "file",
    "code",
    "name",
    "severity",
    "message",
    "hint",
    "path",
    "line",
    "column",
    "end_line",
    "end_column",
    "source",
]


def test_a_good_recipe(cli) -> None:
    done = cli("check", FLUX)
    assert (done.code, done.out) == (0, "")
    assert done.err == "dcompile: 1 file checked, no errors\n"


def test_a_wrong_recipe(cli) -> None:
    done = cli("check", WRONG)
    assert done.code == 1
    assert f"{WRONG}:6:11: error DC401 24 heads of `transformer` cannot be divided by tensor 5" in done.out
    assert "help: use 1, 2, 3, 4, 6, 8, 12 or 24" in done.out
    line, caret = done.out.splitlines()[1:3]
    assert line.endswith("tensor: 5  # expect: DC401")
    assert line[caret.index("^")] == "5"
    assert done.err == ""


def test_all_mistakes_of_all_files_at_once(cli) -> None:
    done = cli("check", CASES / "DC304" / "every-place.yaml", WRONG, FLUX)
    assert done.code == 1
    assert done.out.count("error DC304") == 4
    assert done.out.count("error DC401") == 1


def test_warnings_and_strict(cli) -> None:
    assert cli("check", WARNS).code == 0
    assert " warning DC408" in cli("check", WARNS).out
    strict = cli("check", "--strict", WARNS)
    assert strict.code == 1
    assert " error DC408" in strict.out
    advised = cli("check", "--strict", ADVISES)
    assert advised.code == 0
    assert " advice DC603" in advised.out


def test_an_empty_file(cli, tmp_path: Path) -> None:
    for content in (b"", b"\n\n", b"# nothing\n"):
        (tmp_path / "empty.yaml").write_bytes(content)
        done = cli("check", "empty.yaml")
        assert done.code == 1
        assert done.out.startswith("empty.yaml:1:1: error DC")
        assert cli("empty.yaml").code == 1


@pytest.mark.parametrize("command", [["check"], ["compile"], ["config"], ["run"], []], ids=str)
def test_what_cannot_be_read_is_one_sentence(cli, tmp_path: Path, command: list[str]) -> None:
    for name in ("missing.yaml", str(tmp_path)):
        done = cli(*command, name)
        assert done.code == 2
        assert done.out == ""
        assert done.err.count("\n") == 1
        assert done.err.startswith(f"dcompile: {name}: ")


def test_an_unreadable_file_does_not_hide_the_others(cli) -> None:
    done = cli("check", "missing.yaml", WRONG)
    assert done.code == 2
    assert "DC401" in done.out


def test_a_wrong_command_line(cli) -> None:
    for arguments in ([], ["check"], ["check", "--format", "xml", FLUX], ["run"], ["--nothing"], ["explain"]):
        done = cli(*arguments)
        assert done.code == 2
        assert "usage: dcompile" in done.err


def test_help_and_version(cli) -> None:
    assert cli("--version").out.startswith("dcompile ")
    text = cli("--help").out
    assert all(command in text for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_function(command: str) -> None:
    assert callable(pkgutil.resolve_name(f"dcompile.cli.{COMMANDS[command].replace('.', ':')}"))


def test_set_overrides(cli) -> None:
    assert cli("check", FLUX, "--set", "parallel.tensor.degree=5", "--set", "devices.per_node=5").code == 1
    done = cli("check", FLUX, "--set", "parallel.tensor=5", "--set", "devices.per_node=5")
    assert done.out.startswith("--set:1:17: error DC401")
    assert cli("check", WRONG, "--set", "parallel.tensor=1", "--set", "devices.per_node=1").code == 0


@pytest.mark.parametrize("override", ["nothing", "=3", "run.seed=[1", "run.sed=3", "run.seed=abc"])
def test_a_wrong_override_is_no_traceback(cli, override: str) -> None:
    done = cli("check", FLUX, "--set", override)
    assert done.code == 1
    assert "error DC" in done.out


def test_json(cli) -> None:
    done = cli("check", "--format", "json", WARNS, CASES / "DC304" / "every-place.yaml", WRONG)
    assert done.code == 1
    found = json.loads(done.out)
    assert all(list(finding) == KEYS for finding in found)
    places = [(finding["file"], finding["line"], finding["column"], finding["code"]) for finding in found]
    assert places == sorted(places)
    assert len(places) == 6
    assert {finding["source"] for finding in found} == {"dcompile"}
    tensor = next(finding for finding in found if finding["code"] == "DC401")
    assert tensor["name"] == "heads-not-divisible"
    assert tensor["severity"] == "error"
    assert tensor["path"] == "parallel.tensor"
    assert (tensor["line"], tensor["column"], tensor["end_line"], tensor["end_column"]) == (6, 11, 6, 12)
    assert cli("check", "--format", "json", FLUX).out == "[]\n"


def test_json_of_strict(cli) -> None:
    found = json.loads(cli("check", "--format", "json", "--strict", WARNS, ADVISES).out)
    assert {finding["severity"] for finding in found} == {"error", "advice"}


def test_skip_foreign(cli, tmp_path: Path) -> None:
    (tmp_path / "compose.yaml").write_text("services: {}\nversion: 1\n", encoding="utf-8")
    assert cli("check", "compose.yaml").code == 1
    done = cli("check", "--skip-foreign", "compose.yaml", FLUX)
    assert done.code == 0
    assert "compose.yaml: skipped" in done.err
    for text in (
        "version: 1\nmodel: {}\n",
        "extends: missing.yaml\n",
        "",
        "version: 1\nmodle: {}\nrun: {prompts: [a]}\n",  # a slip makes it no foreign file
        "version: 1\nmodel: {}\nrun\n",
        "version: 1\nmodel: &m {}\n---\na: b\n",
        "extends: {{ base }}\n",
        "{version: 1, model: ",
    ):
        (tmp_path / "ours.yaml").write_text(text, encoding="utf-8")
        assert cli("check", "--skip-foreign", "ours.yaml").code == 1, text
    for text in ("a: &x 1\nb: *x\n---\nc: 2\n", "- a\n", "kind: {{ .Values.kind }}\n", "version: '3'\nx: !tag y\n"):
        (tmp_path / "theirs.yaml").write_text(text, encoding="utf-8")
        assert cli("check", "theirs.yaml").code == 1, text
        assert cli("check", "--skip-foreign", "theirs.yaml").code == 0, text
    (tmp_path / "ours.yaml").write_bytes("version: 1\nmodel: {}\n".encode("utf-16"))
    assert cli("check", "--skip-foreign", "ours.yaml").code == 1


def test_compile_writes_a_bundle(cli, tmp_path: Path) -> None:
    done = cli(FLUX)
    assert done.code == 0
    folder = tmp_path / "build" / "flux1-dev-tensor4"
    assert sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()) == [
        "launch/torchrun.sh",
        "plan.json",
        "report.html",
        "run.py",
    ]
    first = (folder / "plan.json").read_bytes()
    assert cli("compile", FLUX).code == 0
    assert (folder / "plan.json").read_bytes() == first
    assert "tensor 4" in done.out
    assert "10.14 GiB" in done.out
    assert "% full" in done.out
    assert done.err == ""


def test_compile_of_a_wrong_recipe_writes_nothing(cli, tmp_path: Path) -> None:
    done = cli(WRONG)
    assert (done.code, done.out) == (1, "")
    assert "DC401" in done.err
    assert list(tmp_path.iterdir()) == []


def test_compile_where_nothing_can_be_written(cli, tmp_path: Path) -> None:
    (tmp_path / "build").write_text("a file is in the way", encoding="utf-8")
    done = cli(FLUX)
    assert done.code == 2
    assert done.err.startswith("dcompile: ")
    assert done.err.count("\n") == 1


def test_schemas(cli) -> None:
    for which in ("recipe", "plan"):
        assert cli("schema", which).out == (ROOT / "schemas" / f"{which}.schema.json").read_text(encoding="utf-8")
    assert cli("schema").out == cli("schema", "recipe").out


def test_models(cli) -> None:
    assert "black-forest-labs/FLUX.1-dev" in cli("models").out
    listed = json.loads(cli("models", "--format", "json").out)
    rows = {(row["class"], row["family"]): row for row in listed}
    assert len(rows) == len(listed)
    flux = rows["FluxTransformer2DModel", "flux"]
    assert flux["tensor"] == {"plan": "builtin", "degrees": [1, 2, 3, 4, 6, 8, 12, 24], "verified": True}
    assert flux["context"] == {"plan": "builtin", "splits_text": True, "verified": True}
    assert flux["verified"]["tensor"] == [2, 4]
    assert {"ulysses 2", "ring 2", "ulysses 2 x ring 2"} <= set(flux["verified"]["context"])
    assert flux["verified"]["with"] == known_versions()
    unet = rows["UNet2DConditionModel", "sdxl"]
    assert unet["tensor"]["plan"] == unet["context"]["plan"] == "none"
    for row in listed:
        assert list(row) == ["class", "family", "diffusers", "tensor", "context", "verified"]
        assert list(row["tensor"]) == ["plan", "degrees", "verified"]
        assert row["tensor"]["verified"] is ("tensor" in row["verified"])
        assert row["context"]["verified"] is ("context" in row["verified"])
        assert not (row["tensor"]["verified"] and row["tensor"]["plan"] == "none")
        assert not (row["context"]["verified"] and row["context"]["plan"] == "none")
    assert rows["LTXVideoTransformer3DModel", "ltx"]["verified"]["cut"] == [2]
    assert not all(row["verified"] for row in listed)
    written = json.loads((MODELS / "verified.json").read_text(encoding="utf-8"))
    assert written["versions"] == known_versions()
    assert written["classes"].keys() <= known_classes().keys() | {
        part.class_name for name in known_models() for part in load_model(name).components.values()
    }


def test_hardware(cli) -> None:
    assert "h100-sxm-80gb" in cli("hardware").out
    rows = {row["name"]: row for row in json.loads(cli("hardware", "--format", "json").out)}
    assert rows["h100-sxm-80gb"]["memory_bytes"] == 81_559 * 2**20


def test_a_slip_in_a_command_is_no_recipe(cli, tmp_path: Path) -> None:
    done = cli("chek", FLUX)
    assert (done.code, done.out) == (2, "")
    assert "did you mean `check`?" in done.err
    assert "No such file" in cli("recipe").err
    (tmp_path / "chek").write_text("version: 1\n", encoding="utf-8")
    assert cli("chek").code == 1


def test_explain(cli) -> None:
    done = cli("explain", "dc401")
    assert cli("explain", "401").out == cli("explain", "heads-not-divisible").out == done.out
    assert done.code == 0
    assert done.out.startswith("DC401 heads-not-divisible\n")
    assert "Use instead:" in done.out
    assert cli("explain", "DC101").code == 0
    wrong = cli("explain", "DC999")
    assert (wrong.code, wrong.out, wrong.err.count("\n")) == (2, "", 1)


def test_config(cli, tmp_path: Path) -> None:
    done = cli("config", FLUX)
    assert done.code == 0
    full = yaml.safe_load(done.out)
    assert full["parallel"]["tensor"] == {"degree": 4, "plan": "builtin"}
    assert full["run"]["batch"] == 1
    (tmp_path / "full.yaml").write_text(done.out, encoding="utf-8")
    assert cli("check", "full.yaml").code == 0


def test_config_origins(cli, tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(Path(FLUX).read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "recipe.yaml").write_text("extends: base.yaml\nrun:\n  steps: 3\n", encoding="utf-8")
    done = cli("config", "--origins", "recipe.yaml", "--set", "run.seed=7")
    assert done.code == 0
    lines = {line.partition(":")[0]: line.partition("  # ")[2] for line in done.out.splitlines()}
    assert lines["run.steps"] == "recipe.yaml:3"
    assert lines["run.seed"] == "--set"
    assert lines["run.batch"] == "default"
    assert lines["run.height"].endswith("base.yaml:15")


def test_init(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dcompile.cli.init.devices_here", lambda: ("cpu", 1, 0))
    for model in ("black-forest-labs/FLUX.1-dev", "Wan-AI/Wan2.1-T2V-1.3B-Diffusers"):
        name = f"{model.partition('/')[2]}.yaml"
        done = cli("init", "--model", model, "--output", name)
        assert done.code == 0
        assert done.out.startswith(f"{name}: this machine has")
        assert cli("check", "--strict", name).code == 0
    text = (tmp_path / "FLUX.1-dev.yaml").read_text(encoding="utf-8")
    again = cli("init", "--model", "Qwen/Qwen-Image", "--output", "FLUX.1-dev.yaml")
    assert again.code == 2
    assert "exists" in again.err
    assert (tmp_path / "FLUX.1-dev.yaml").read_text(encoding="utf-8") == text


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_init_writes_what_every_model_is_published_with(kind: str, cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dcompile.cli.init.devices_here", lambda: (kind, 1, 400 * 2**30))
    written = {}
    for model in known_models():
        name = f"{model.partition('/')[2]}.yaml"
        done = cli("init", "--model", model, "--output", name)
        if load_model(model).pictures:
            assert done.code == 2
            continue
        assert done.code == 0, done.err
        checked = cli("check", "--format", "json", name)
        codes = {finding["code"] for finding in json.loads(checked.out) if finding["severity"] != "advice"}
        # What is said of the whole machine, or of a part in another repository, is no matter here.
        assert not codes & {"DC306", "DC308", "DC309", "DC420", "DC604", "DC608"}, (model, checked.out)
        run = yaml.safe_load(Path(name).read_text(encoding="utf-8"))["run"]
        written[model] = (run["steps"], run.get("guidance"), run.get("true_cfg"))
    assert written["black-forest-labs/FLUX.1-schnell"] == (4, 0, None)
    assert written["black-forest-labs/FLUX.1-dev"] == (50, 3.5, None)
    assert written["black-forest-labs/FLUX.2-klein-9B"] == (4, None, None)
    assert written["Tongyi-MAI/Z-Image-Turbo"] == (9, 0, None)
    assert written["Qwen/Qwen-Image"] == (50, None, 4)
    assert written["Wan-AI/Wan2.2-T2V-A14B-Diffusers"] == (40, 4, None)
    assert written["stabilityai/stable-diffusion-3.5-medium"] == (40, 4.5, None)
    assert written["stabilityai/stable-diffusion-xl-base-1.0"] == (50, 5, None)


def test_init_names_the_schema_where_there_is_one(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dcompile.cli.init.devices_here", lambda: ("cpu", 1, 0))
    model = "black-forest-labs/FLUX.1-dev"

    def first_line(name: str) -> str:
        done = cli("init", "--model", model, "--output", name)
        assert done.code == 0
        assert cli("check", "--strict", name).code == 0
        assert ("dcompile schema >" in done.out) != (tmp_path / name).read_text().startswith("# yaml-language-server")
        return (tmp_path / name).read_text(encoding="utf-8").splitlines()[0]

    assert first_line("a.yaml").startswith(f"# {model}")
    (tmp_path / "recipe.schema.json").write_text('{"title": "another program\'s"}', encoding="utf-8")
    assert first_line("b.yaml").startswith(f"# {model}")
    (tmp_path / "recipe.schema.json").write_text(cli("schema").out, encoding="utf-8")
    assert first_line("c.yaml") == "# yaml-language-server: $schema=recipe.schema.json"
    assert first_line("jobs/today/d.yaml") == "# yaml-language-server: $schema=../../recipe.schema.json"
    (tmp_path / "jobs" / "schemas").mkdir()
    (tmp_path / "jobs" / "schemas" / "recipe.schema.json").write_text(cli("schema").out, encoding="utf-8")
    assert first_line("jobs/today/e.yaml") == "# yaml-language-server: $schema=../schemas/recipe.schema.json"


def test_init_on_an_accelerator(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dcompile.cli.init.devices_here", lambda: ("cuda", 2, 80 * 2**30))
    assert cli("init", "--model", "black-forest-labs/FLUX.1-dev").code == 0
    assert cli("check", "--strict", "recipe.yaml").code == 0


def test_init_of_an_unknown_model(cli, tmp_path: Path) -> None:
    done = cli("init", "--model", "black-forest-labs/FLUX.1-dew")
    assert done.code == 2
    assert "did you mean `black-forest-labs/FLUX.1-dev`?" in done.err
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "model").mkdir()
    done = cli("init", "--model", "model")
    assert (done.code, "`model: {path: ...}`" in done.err) == (2, True)


def test_an_option_that_a_command_does_not_take(cli) -> None:
    done = cli("run", "recipe.yaml", "--origins")
    assert done.code == 2
    assert done.err == "dcompile: `dcompile run` takes no `--origins`; `dcompile run --help` says what it takes\n"
    assert cli("recipe.yaml", "more.yaml").err.startswith("dcompile: `dcompile` takes no `more.yaml`")


class Terminal:
    def isatty(self) -> bool:
        return True


def test_colour_only_on_a_terminal_that_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert render.wants_colour(Terminal())  # type: ignore[arg-type]
    monkeypatch.setenv("NO_COLOR", "1")
    assert not render.wants_colour(Terminal())  # type: ignore[arg-type]
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not render.wants_colour(Terminal())  # type: ignore[arg-type]


def test_no_colour_in_a_pipe(cli) -> None:
    assert "\x1b" not in cli("check", WRONG).out


def test_a_bug_of_ours_is_said_to_be_one(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("oops")

    monkeypatch.setattr("dcompile.cli.commands.compile_recipe", broken)
    done = cli("check", FLUX)
    assert done.code == 2
    assert "DC901" in done.err
    assert "--traceback" in done.err
    with pytest.raises(RuntimeError, match="oops"):
        main(["check", "--traceback", FLUX])


def test_an_interrupt(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dcompile.cli.commands.compile_recipe", interrupted)
    assert cli("check", FLUX).code == 130


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "dcompile.cli.main", "check", "--format", "json", WRONG]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    os.close(writer)
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


def test_broken_weights_are_the_machines_fault_in_a_run(cli, pipeline_folder, tmp_path: Path) -> None:
    recipe = tmp_path / "r.yaml"
    recipe.write_text("version: 1\nmodel: {path: model}\nrun: {prompts: [a fox]}\n", encoding="utf-8")
    folder = pipeline_folder("FluxPipeline", "FluxTransformer2DModel", {"num_attention_heads": 4})
    weights = folder / "transformer" / "diffusion_pytorch_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    done = cli("run", recipe)
    assert (done.code, done.err.count("error DC316"), done.err.count("is cut off")) == (4, 1, 1)
    assert cli("check", recipe).code == 1
    weights.unlink()
    done = cli("run", recipe)
    assert (done.code, done.err.count("holds no weights")) == (4, 1)
    recipe.write_text("version: 1\nmodel: {path: model}\nrun: {prompts: [a fox], stps: 1}\n", encoding="utf-8")
    assert cli("run", recipe).code == 1


def test_a_script_ends_at_once_with_what_it_printed(tmp_path: Path) -> None:
    text = "import atexit, dcompile\natexit.register(print, 'too late')\nprint('done', end='')\ndcompile.end(3)\n"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (3, "done", "")


def test_without_arguments_it_says_what_it_takes(cli) -> None:
    done = cli()
    assert (done.code, done.out) == (2, "")
    assert "COMMAND | RECIPE" in done.err
    assert "doctor" in done.err


def test_options_may_stand_before_the_recipe(cli) -> None:
    assert json.loads(cli("--format", "json", FLUX).out)["status"] == "written"
    assert cli("--check", FLUX).code == 0
    assert cli("--set", "run.seed=7", WARNS).code == 0
    assert cli("--version").out.startswith("dcompile ")


def test_what_cannot_be_explained(cli) -> None:
    assert cli("explain", "nothing").err == "dcompile: `nothing` is neither a code, such as DC401, nor a recipe here\n"


def test_init_knows_a_model_without_its_owner(cli) -> None:
    assert "did you mean `black-forest-labs/FLUX.1-dev`?" in cli("init", "--model", "flux.1-dev").err
