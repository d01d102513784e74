"""What GitHub and SARIF readers get."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from dcompile.cli.main import main

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "golden" / "diagnostics"
SCHEMA = json.loads((ROOT / "tests" / "data" / "sarif-schema-2.1.0.json").read_text(encoding="utf-8"))


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)

    def call(style: str, *arguments: object) -> str:
        main(["check", "--format", style, *map(str, arguments)])
        return capsys.readouterr().out

    return call


def sarif(text: str) -> dict[str, Any]:
    log: dict[str, Any] = json.loads(text)
    jsonschema.Draft4Validator(SCHEMA, format_checker=jsonschema.FormatChecker()).validate(log)
    assert log["version"] == "2.1.0"
    return log["runs"][0]


def test_sarif_of_every_case_is_valid(said) -> None:
    files = [sorted(folder.glob("*.yaml"))[-1] for folder in sorted(CASES.iterdir())]
    run = sarif(said("sarif", *files))
    found = json.loads(said("json", *files))
    assert [result["ruleId"] for result in run["results"]] == [finding["code"] for finding in found]
    rules = run["tool"]["driver"]["rules"]
    assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in run["results"])
    for result, finding in zip(run["results"], found, strict=True):
        region = result["locations"][0]["physicalLocation"]["region"]
        assert (region["startLine"], region["startColumn"]) == (finding["line"], finding["column"])
        assert region["endLine"] > region["startLine"] or region["endColumn"] >= region["startColumn"]
        assert result["level"] == {"advice": "note"}.get(finding["severity"], finding["severity"])
        assert finding["message"] in result["message"]["text"]


def test_the_schema_refuses_what_is_no_sarif() -> None:
    with pytest.raises(jsonschema.ValidationError):
        sarif(json.dumps({"version": "2.1.0", "runs": [{"tool": {}}]}))


def test_sarif_of_nothing_and_of_overrides(said, tmp_path: Path) -> None:
    flux = ROOT / "recipes" / "flux1-dev-tensor4.yaml"
    assert sarif(said("sarif", flux))["results"] == []
    (result,) = sarif(said("sarif", flux, "--set", "run.sed=1"))["results"]
    assert (result["ruleId"], "locations" in result) == ("DC201", False)
    (result,) = sarif(said("sarif", flux, "--set", "run.seed=x"))["results"]
    assert (result["ruleId"], "locations" in result) == ("DC203", False)


def test_names_of_files_in_sarif(said, tmp_path: Path) -> None:
    (tmp_path / "a b%é.yaml").write_text("a: 1\na: 2\n", encoding="utf-8")
    (result, *_) = sarif(said("sarif", "a b%é.yaml"))["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": "a%20b%25%C3%A9.yaml"}
    (result, *_) = sarif(said("sarif", tmp_path / "a b%é.yaml"))["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": "a%20b%25%C3%A9.yaml"}


def test_github(said, tmp_path: Path) -> None:
    text = "version: 1\nmodel: {id: 'x%y', zone: 1}\nrun: {prompts: [a]}\n"
    (tmp_path / "a,b:c.yaml").write_text(text, encoding="utf-8")
    model, line, *_ = said("github", "./a,b:c.yaml").splitlines()
    assert "DC301 unknown-model::`x%25y` is not" in model
    assert line == (
        "::error file=a%2Cb%3Ac.yaml,line=2,endLine=2,col=20,endColumn=24,title=DC201 unknown-key"
        "::`model` has no key `zone` (help: known keys: id, path, like, revision, variant, pipeline, dtype, scheduler, "
        "adapters, trust_remote_code)"
    )
    kinds = [line.split()[0] for line in said("github", CASES / "DC603" / "pcie.yaml").splitlines()]
    assert kinds == ["::notice"]
    assert said("github", ROOT / "recipes" / "flux1-dev-tensor4.yaml") == ""


def test_github_escapes_what_it_obeys(said, tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text('version: 1\nmodel: {id: a/b}\n"x\\r\\n::error::%0Ay": 1\n', encoding="utf-8")
    text = said("github", "r.yaml")
    assert len(text.splitlines()) == len([line for line in text.splitlines() if line.startswith("::error file=r.yaml")])
    assert "%250Ay" in text
