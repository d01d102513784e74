"""`dcompile explain RECIPE`: what it says is what the compiler does."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from dcompile.cli.main import main
from dcompile.driver import compile_recipe

RECIPES = Path(__file__).parents[2] / "recipes"
AUTO = RECIPES / "flux1-dev-auto.yaml"
PARTS = ("next best:", "what would change the choice:", "limits:")


def explained(capsys: pytest.CaptureFixture[str], file: Path, *more: str) -> str:
    assert main(["explain", str(file), *more]) == 0
    return capsys.readouterr().out


def test_the_winner_is_that_of_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    text = explained(capsys, AUTO)
    compiled = compile_recipe(AUTO)
    assert compiled.choice is not None
    assert text.startswith(
        f"chosen: {compiled.choice.winner.candidate.text}\n  {compiled.choice.decisions[0].because}\n"
    )
    for other in compiled.choice.others:
        assert f"\n  {other.candidate.text}: " in text
    places = [text.index(f"\n{part}\n") for part in PARTS]
    assert places == sorted(places)


def test_what_would_change_the_choice_does(capsys: pytest.CaptureFixture[str]) -> None:
    text = explained(capsys, AUTO, "--set", "devices.per_node=4")
    changed = dict(re.findall(r"^  link: ([\w-]+): (.+), [\d.]+ \w+$", text, re.M))
    assert set(changed) == {"pcie4-peer"}
    for link, plan in changed.items():
        now = compile_recipe(AUTO, ["devices.per_node=4", f"devices.link={link}"])
        assert now.choice is not None
        assert now.choice.winner.candidate.text == plan
    same = re.search(r"^  not: (.+)$", text, re.M)
    assert same is not None
    for count in re.findall(r"per_node: (\d+)", same[1]):
        unchanged = compile_recipe(AUTO, [f"devices.per_node={count}"])
        assert unchanged.choice is not None
        assert text.startswith(f"chosen: {unchanged.choice.winner.candidate.text}\n")


def test_a_recipe_that_names_its_plan_is_held_against_the_choice(capsys: pytest.CaptureFixture[str]) -> None:
    text = explained(capsys, RECIPES / "flux1-dev-tensor4.yaml")
    assert text.startswith("the recipe's plan: tensor: {degree: 4, plan: builtin}, ")
    assert "`auto` would choose `" in text
    offload = "components: {text_encoder_2: {offload: model}, transformer: {offload: model}}"
    named = explained(capsys, AUTO, "--set", f"parallel={{tensor: 2, {offload}}}", "--set", "devices.per_node=2")
    assert "`auto` would choose the same" in named


@pytest.mark.parametrize("name", ["quickstart", "wan22-t2v-ulysses4", "sdxl-data4", "quickstart-device-map"])
def test_every_kind_of_recipe_can_be_explained(capsys: pytest.CaptureFixture[str], name: str) -> None:
    text = explained(capsys, RECIPES / f"{name}.yaml")
    assert all(part in text for part in PARTS)


def test_a_recipe_that_is_wrong_is_not_explained(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["explain", str(AUTO), "--set", "model.id=nobody/nothing"]) == 1
    shown = capsys.readouterr()
    assert "DC301" in shown.err
    assert shown.out == ""
    assert main(["explain", str(tmp_path / "absent.yaml")]) == 2


# The same as data.


def as_data(capsys: pytest.CaptureFixture[str], file: Path, *more: str) -> dict[str, Any]:
    assert main(["explain", str(file), "--format", "json", *more]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_the_numbers_are_those_of_the_choice(capsys: pytest.CaptureFixture[str]) -> None:
    found = as_data(capsys, AUTO)
    compiled = compile_recipe(AUTO)
    assert compiled.choice is not None
    assert compiled.plan is not None
    winner = compiled.choice.winner
    assert found["asks_auto"]
    assert found["chosen"]["parallel"] == found["plan"]["parallel"] == winner.candidate.text
    assert found["chosen"]["seconds"] == pytest.approx(found["plan"]["seconds"])
    assert [one["parallel"] for one in found["next_best"]] == [one.candidate.text for one in compiled.choice.others]
    assert all(
        one["seconds"] >= 0.99 * winner.seconds for one in found["next_best"] if "offload" not in one["parallel"]
    )
    memory = found["limits"]["memory"]
    fullest = max(load.need_bytes + load.reserve_bytes for load in compiled.plan.loads)
    assert (memory["used_bytes"], memory["memory_bytes"]) == (fullest, compiled.plan.loads[0].memory_bytes)
    estimate = compiled.plan.estimate
    assert found["limits"]["exchange_share"] == estimate["communication_seconds"] / estimate["step_seconds"]
    refused = [one for one in compiled.choice.judged if one.checked is None]
    assert sum(one["count"] for one in found["limits"]["refused"]) == len(refused)


def test_every_change_that_is_said_comes_out_of_a_compile(capsys: pytest.CaptureFixture[str]) -> None:
    for change in as_data(capsys, AUTO)["changes"]:
        what = change["what"]
        if size := re.fullmatch(r"(\d+)x(\d+) pixels", what):
            more = [f"run.width={size[1]}", f"run.height={size[2]}"]
        elif re.fullmatch(r"(per_node|link): .+", what):
            more = ["devices." + what.replace(": ", "=")]
        else:
            continue
        other = compile_recipe(AUTO, more)
        assert other.choice is not None
        assert other.choice.winner.candidate.text == change["parallel"], what
        assert other.choice.winner.seconds == change["seconds"]


def test_the_limits_are_those_of_the_plan_that_a_recipe_names(capsys: pytest.CaptureFixture[str]) -> None:
    file = RECIPES / "flux1-dev-tensor4.yaml"
    found = as_data(capsys, file)
    compiled = compile_recipe(file)
    assert compiled.plan is not None
    assert not found["asks_auto"]
    assert found["plan"]["parallel"] != found["chosen"]["parallel"]
    assert found["limits"]["memory"]["used_bytes"] == max(
        load.need_bytes + load.reserve_bytes for load in compiled.plan.loads
    )
    text = explained(capsys, file)
    ratio = found["plan"]["seconds"] / found["chosen"]["seconds"]
    assert f"the recipe's plan takes {ratio:.2f} times as long" in text
    assert f"exchange: {found['limits']['exchange_share']:.0%} of a step" in text


def test_what_loading_takes_of_the_host_is_a_limit(capsys: pytest.CaptureFixture[str]) -> None:
    assert as_data(capsys, AUTO)["limits"]["host_memory"] is None
    text = explained(capsys, AUTO, "--set", "devices.host_memory=2TiB")
    assert re.search(r"host: loading takes [\d.]+ GiB of 2TiB", text)


def test_where_no_time_is_known_the_probe_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    text = explained(capsys, RECIPES / "quickstart.yaml")
    assert "time: not known for these devices; `dcompile probe` measures them" in text
    assert as_data(capsys, RECIPES / "quickstart.yaml")["chosen"]["seconds"] is None


def test_a_code_is_explained_as_data_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "DC590", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "no-plan-fits"


def test_only_machines_that_can_be_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    """No ninth card in a box, no AMD link between NVIDIA's cards."""
    text = explained(capsys, AUTO, "--set", "devices.per_node=8", "--set", "devices.gpu=a100-sxm-80gb")
    changed = text.partition("what would change the choice:")[2].partition("limits:")[0]
    assert "nodes: 2" in changed
    assert "per_node: 7" in changed
    assert "per_node: 9" not in changed
    assert "xgmi" not in changed
    assert "nvlink4" in changed
