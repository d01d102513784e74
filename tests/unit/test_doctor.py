"""What is installed here against what a verdict, a run and a recipe need."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dcompile.cli import doctor, environment
from dcompile.cli.main import main
from dcompile.facts.registry import known_version, known_versions
from dcompile.machine.devices import Device, Machine

ROOT = Path(__file__).parents[2]
INDEX = "--extra-index-url"
QUICKSTART = str(ROOT / "recipes" / "quickstart.yaml")
FLUX = str(ROOT / "recipes" / "flux1-dev-tensor4.yaml")
RECIPE = """version: 1
model: {id: black-forest-labs/FLUX.1-dev}
requires: {diffusers: ">=0.42"}
devices: {gpu: h100-sxm-80gb}
run: {prompts: [a red fox]}
"""


H100 = Device("NVIDIA H100 80GB HBM3", 84_929_347_584)
A100 = Device("NVIDIA A100-SXM4-40GB", 42_298_834_944)


def machine_of(kind: str, *devices: Device) -> Callable[[], Machine]:
    return lambda: Machine(kind, devices or (Device("a processor", 0),), None)


def pretend(monkeypatch: pytest.MonkeyPatch, **versions: str | None) -> None:
    """Make libraries look as if they were installed in these versions, or not at all."""
    real = environment.installed

    def installed(name: str) -> str | None:
        return versions[name] if name in versions else real(name)

    monkeypatch.setattr(environment, "installed", installed)
    monkeypatch.setattr(doctor, "installed", installed)


def test_the_versions_of_the_facts_are_said_in_one_place() -> None:
    assert set(known_versions()) == {"diffusers", "transformers", "torch", "accelerate"}
    assert known_version() == known_versions()["diffusers"]
    assert all("+" not in version for version in known_versions().values())


def test_another_version_is_a_warning_of_check_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    for here, codes in (("0.39.0", ["DC315"]), (known_version(), []), (None, [])):
        pretend(monkeypatch, diffusers=here)
        assert main(["check", "--format", "json", "recipe.yaml"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert [finding["code"] for finding in found] == codes
        assert all((finding["severity"], finding["line"]) == ("warning", 3) for finding in found)
        assert main(["check", "--strict", "--format", "json", "recipe.yaml"]) == 0
        assert json.loads(capsys.readouterr().out) == found
        assert main(["recipe.yaml"]) == 0
        assert "DC315" not in capsys.readouterr().err
    plans = {(tmp_path / "build" / "recipe" / "plan.json").read_bytes()}
    pretend(monkeypatch, diffusers="0.39.0")
    main(["recipe.yaml"])
    assert plans == {(tmp_path / "build" / "recipe" / "plan.json").read_bytes()}


def test_strict_raises_what_the_recipe_says_and_not_what_the_machine_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    pretend(monkeypatch, diffusers="0.39.0")
    (tmp_path / "recipe.yaml").write_text(RECIPE + "parallel: {context: {uneven: true}}\n")
    assert main(["check", "--strict", "--format", "json", "recipe.yaml"]) == 1
    found = {finding["code"]: finding["severity"] for finding in json.loads(capsys.readouterr().out)}
    assert found == {"DC315": "warning", "DC411": "error"}


def test_a_patch_release_is_no_other_version(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, diffusers="0.42.9")
    assert environment.other_versions({"diffusers": "0.42.1"}) == []
    assert environment.other_versions({"diffusers": "==0.42.1"}) == [("diffusers", "==0.42.1", "0.42.9")]


def test_run_refuses_another_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    pretend(monkeypatch, diffusers="0.39.0")
    monkeypatch.setattr(environment, "missing_packages", lambda plan: [])
    assert main(["run", QUICKSTART]) == 2
    assert f"the plan is for diffusers {known_version()}, and 0.39.0 is installed" in capsys.readouterr().err


def test_a_cpu_plan_starts_no_crowd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(environment.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(environment, "missing_packages", lambda plan: [])
    monkeypatch.setattr(environment, "other_versions", lambda requires: [])
    assert main(["run", QUICKSTART, "--set", "parallel.data=2000"]) == 2
    assert "starts 2000 processes, and this machine has 2 core(s): use 32 at most" in capsys.readouterr().err
    program = {"device_kind": "cpu", "ranks_per_node": 32}
    assert environment.too_many_processes({"program": program}) is None
    assert environment.too_many_processes({"program": program | {"ranks_per_node": 33}}) is not None
    assert environment.too_many_processes({"program": program | {"ranks_per_node": 33, "device_kind": "cuda"}}) is None


def test_extras_that_a_plan_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment.importlib.util, "find_spec", lambda name: None)
    components = {"vae": {"quantize": None}, "transformer": {"quantize": {"method": "torchao", "type": "int8wo"}}}
    pipeline = {"class": "FluxPipeline", "adapters": [{}], "scheduler": None}
    run: dict[str, Any] = {"call": {}}
    program = {"pipeline": pipeline, "components": components, "run": run, "output": {"format": "mp4"}}
    assert environment.missing_packages({"program": program}) == ["dcompile[lora,quantize,run,video]"]
    monkeypatch.setattr(environment.importlib.util, "find_spec", lambda name: name != "peft" or None)
    assert environment.missing_packages({"program": program}) == ["dcompile[lora]"]
    # Wan's image-to-video calls ftfy, which diffusers imports only where it is there.
    program = {
        "pipeline": {"class": "WanImageToVideoPipeline", "adapters": [], "scheduler": None},
        "components": {},
        "run": run,
        "output": {"format": "png"},
    }
    monkeypatch.setattr(environment.importlib.util, "find_spec", lambda name: name != "ftfy" or None)
    assert environment.missing_packages({"program": program}) == ["dcompile[video]"]
    # Qwen's processor sees videos too, and transformers loads it with torchvision only, which no extra brings.
    program["pipeline"]["class"] = "QwenImageEditPipeline"
    monkeypatch.setattr(environment.importlib.util, "find_spec", lambda name: name != "torchvision" or None)
    for build, where in {"2.13.0": [], "2.13.0+cpu": ["cpu"], "2.13.0+cu130": ["cu130"], "2.13.0+gitab12": []}.items():
        pretend(monkeypatch, torch=build)
        index = [argument for name in where for argument in (INDEX, f"https://download.pytorch.org/whl/{name}")]
        assert environment.missing_packages({"program": program}) == ["torchvision", *index]
    # LTX-2 compresses an input picture with PyAV, where it is not told to leave it as it is.
    program["pipeline"]["class"] = "LTX2ImageToVideoPipeline"
    monkeypatch.setattr(environment.importlib.util, "find_spec", lambda name: name != "av" or None)
    assert environment.missing_packages({"program": program}) == ["av"]
    run["call"]["image_crf"] = 0
    assert environment.missing_packages({"program": program}) == []
    program["pipeline"]["class"] = "WanImageToVideoPipeline"
    # What no extra brings is named by itself.
    program["pipeline"]["scheduler"] = {"class": "EulerDiscreteScheduler", "use_beta_sigmas": True}
    monkeypatch.setattr(environment.importlib.util, "find_spec", lambda name: name not in ("ftfy", "scipy") or None)
    assert environment.missing_packages({"program": program}) == ["dcompile[video]", "scipy"]


def test_doctor_of_this_machine(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("dcompile.machine.devices.look", machine_of("cpu"))
    pretend(monkeypatch, peft=None)
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "not installed (extra `lora`)" in out
    assert "no accelerator" in out
    assert f"facts of diffusers     {known_version()}" in out or known_version() in out


def test_doctor_of_a_recipe_that_runs_here(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("dcompile.machine.devices.look", machine_of("cpu"))
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: object())
    pretend(monkeypatch, diffusers=known_version())
    assert main(["doctor", QUICKSTART, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert all(list(row) == ["what", "is_fine", "found", "hint"] for row in found)
    assert all(row["is_fine"] for row in found)


def test_doctor_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("dcompile.machine.devices.look", machine_of("cuda", H100, H100))
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None if name == "accelerate" else object())
    pretend(monkeypatch, diffusers="0.39.0")
    assert main(["doctor", FLUX, "--format", "json"]) == 2
    rows = {row["what"]: row for row in json.loads(capsys.readouterr().out)}
    wrong = {what: row for what, row in rows.items() if not row["is_fine"]}
    devices = next(what for what in rows if what.startswith("4 device(s) of kind cuda"))
    assert set(wrong) == {"module accelerate", f"diffusers for {known_version()}", devices}
    assert wrong["module accelerate"]["hint"] == "pip install 'dcompile[run]'"
    assert wrong[devices]["found"].startswith("2 of cuda")
    assert "downloads it" in rows["model black-forest-labs/FLUX.1-dev"]["found"]


def test_doctor_says_which_device_has_no_room(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """FLUX.1-dev at tensor 4 takes 27 GiB of a device: cards of 40 GB have room, cards of 16 GB have none."""
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: object())
    pretend(monkeypatch, diffusers=known_version())
    small = Device("NVIDIA RTX A4000", 16 * 2**30)
    for card, code, count in ((A100, 0, 4), (small, 2, 4), (H100, 0, 0)):
        monkeypatch.setattr("dcompile.machine.devices.look", machine_of("cuda", *[card] * 4))
        assert main(["doctor", FLUX, "--format", "json"]) == code
        rows = [row for row in json.loads(capsys.readouterr().out) if row["what"] == "a device of the plan"]
        assert len(rows) == count
        assert all(row["is_fine"] == (card is A100) and card.name in row["found"] for row in rows)
        assert all("compile the recipe again" in row["hint"] for row in rows if card is small)


def test_doctor_names_packages_that_no_extra_brings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("dcompile.machine.devices.look", machine_of("cuda", H100))
    missing = ("sageattention", "scipy")
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None if name in missing else object())
    file = tmp_path / "r.yaml"
    scheduler = "scheduler: {class: FlowMatchEulerDiscreteScheduler, use_beta_sigmas: true}"
    file.write_text(
        f"version: 1\nmodel: {{id: black-forest-labs/FLUX.1-dev, {scheduler}}}\ndevices: {{gpu: h100-sxm-80gb}}\n"
        "components: {transformer: {attention: sage}}\nrun: {prompts: [a red fox]}\n",
        encoding="utf-8",
    )
    assert main(["doctor", str(file), "--format", "json"]) == 2
    rows = {row["what"]: row["hint"] for row in json.loads(capsys.readouterr().out) if not row["is_fine"]}
    assert rows["module scipy"] == "pip install scipy"
    assert rows["module sageattention"] == "pip install sageattention"


def test_doctor_of_a_wrong_or_absent_recipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "wrong.yaml").write_text("version: 1\n")
    assert main(["doctor", str(tmp_path / "wrong.yaml")]) == 1
    assert main(["doctor", str(tmp_path / "absent.yaml")]) == 2
    assert capsys.readouterr().out == ""


def test_doctor_names_an_adapter_and_a_model_that_are_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: object())
    text = (
        "version: 1\nmodel: {path: gone, like: black-forest-labs/FLUX.1-dev, adapters: [{path: style.safetensors}]}\n"
    )
    (tmp_path / "recipe.yaml").write_text(text + "devices: {kind: cpu}\nrun: {prompts: [a red fox]}\n")
    assert main(["doctor", str(tmp_path / "recipe.yaml")]) == 2
    out = capsys.readouterr().out
    assert f"!!  model {tmp_path / 'gone'}" in out
    assert "!!  adapter style.safetensors" in out
