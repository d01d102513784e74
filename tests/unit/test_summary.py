"""The summary on the terminal: bars in proportion, one screen, every width, with and without colour."""

from __future__ import annotations

import copy
import os
import re
from pathlib import Path
from typing import Any

import pytest
from dcompile.cli.summary import summary_lines
from dcompile.driver import compile_recipe

ROOT = Path(__file__).parents[2]
RECIPES = sorted((ROOT / "recipes").glob("*.yaml"))
ANSI = re.compile(r"\x1b\[[\d;]*m")
GIB = 2**30


def plan_of(recipe: str, *overrides: str) -> dict[str, Any]:
    plan = compile_recipe(ROOT / "recipes" / f"{recipe}.yaml", overrides).plan_json
    assert plan is not None
    return copy.deepcopy(plan)


def bars(lines: list[str]) -> list[str]:
    return [line.strip() for line in lines if line.startswith("    |")]


@pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
@pytest.mark.parametrize("file", RECIPES, ids=lambda file: file.stem)
def test_one_screen_in_every_width(file: Path, width: int) -> None:
    plan = plan_of(file.stem)
    lines = summary_lines(plan, width)
    assert max(map(len, lines)) < max(width, 40) + (len(lines[0]) if width < 60 else 0)
    assert len(lines) <= (30 if width >= 60 else 45)
    painted = summary_lines(plan, width, colour=True)
    assert [ANSI.sub("", line) for line in painted] == lines
    assert "\x1b" not in "".join(lines)
    assert any("\x1b[" in line for line in painted)


def test_bars_are_in_proportion() -> None:
    plan = plan_of("flux1-dev-device-map")
    for device, bar in zip(plan["devices"], bars(summary_lines(plan, 100)), strict=True):
        cells = len(bar) - 2
        assert bar[0] == bar[-1] == "|"
        for sign, size in (
            ("T", device["components"].get("transformer", {"weight_bytes": 0})["weight_bytes"]),
            ("2", device["components"].get("text_encoder_2", {"weight_bytes": 0})["weight_bytes"]),
            ("~", device["activation_bytes"]),
            ("=", device["reserve_bytes"]),
            (".", device["free_bytes"]),
        ):
            assert bar.count(sign) == pytest.approx(cells * size / device["memory_bytes"], abs=1)


def test_bars_have_one_scale_and_end_at_each_devices_limit() -> None:
    plan = plan_of("flux1-dev-device-map")
    plan["devices"][2]["memory_bytes"] *= 2
    short, _, long = bars(summary_lines(plan))
    assert len(long) - 2 == pytest.approx(2 * (len(short) - 2), abs=1)


def test_what_is_over_the_limit_stands_behind_it() -> None:
    plan = plan_of("flux1-dev-device-map")
    device = plan["devices"][1]
    device["memory_bytes"] = device["weight_bytes"] + GIB
    device["free_bytes"] = -device["activation_bytes"]
    lines = summary_lines(plan)
    assert re.fullmatch(r"\|T+~+=\|=+", bars(lines)[1])
    assert "  tight spot: device 1 in denoise, 468.57 MiB over, within the estimate's" in lines


def test_the_tight_spot_is_the_fullest_device() -> None:
    lines = summary_lines(plan_of("flux1-dev-device-map"))
    assert "  tight spot: device 1 in denoise, 11.24 GiB free; largest part transformer" in lines
    lines = summary_lines(plan_of("quickstart"), 100)
    assert "  fullest: device 0 in denoise, 10.68 MiB, its limit is not known; largest part transformer" in lines


def test_signs_are_one_for_each_component() -> None:
    lines = summary_lines(plan_of("wan22-t2v-ulysses4"))
    text = "\n".join(lines)
    for entry in ("T transformer  ", "2 transformer_2  ", "E text_encoder  ", "V vae  ", "~ activations (estimate)"):
        assert entry in text


def test_64_devices_that_are_alike_are_one_line() -> None:
    plan = plan_of("flux1-dev-tensor4", "devices.per_node=64", "parallel={data: 16, tensor: 4}")
    assert len(plan["devices"]) == 64
    lines = summary_lines(plan)
    assert any(line.startswith("  devices 0-63 (64 alike): 22.78 GiB of 79.65 GiB, 29 % full") for line in lines)
    assert len(bars(lines)) == 1


def test_64_devices_that_are_not_alike_are_one_screen() -> None:
    plan = plan_of("flux1-dev-tensor4", "devices.per_node=64", "parallel={data: 16, tensor: 4}")
    for device in plan["devices"]:
        device["weight_bytes"] += device["device"] * GIB // 8
        device["free_bytes"] -= device["device"] * GIB // 8
    lines = summary_lines(plan)
    assert len(lines) < 50
    assert len(bars(lines)) == 16
    assert "  and 48 more devices, none of them fuller" in lines
    assert any(line.startswith("  device 63: ") for line in lines)
    assert any(line.startswith("  tight spot: device 63 in ") for line in lines)


def test_names_cannot_reach_the_terminal() -> None:
    plan = plan_of("quickstart-device-map")
    plan["name"] = "a\x1b[2J"
    device = plan["devices"][0]
    device["components"] = {f"{name}\x1b[2J": part for name, part in device["components"].items()}
    plan["components"] = {name: part for held in plan["devices"] for name, part in held["components"].items()} | plan[
        "components"
    ]
    assert "\x1b" not in "".join(summary_lines(plan))


def test_colour_and_width_are_the_terminals(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = ROOT / "recipes" / "flux1-dev-tensor4.yaml"
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "64")
    assert "\x1b" not in cli(recipe).out
    assert max(map(len, bars(cli(recipe).out.splitlines()))) > 70
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    text = cli(recipe).out
    assert "\x1b[" in text
    assert max(len(ANSI.sub("", line)) for line in text.splitlines()) <= 64
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in cli(recipe).out
    assert os.environ["COLUMNS"] == "64"


def test_many_replicas_are_one_number() -> None:
    plan = plan_of("flux1-dev-tensor4", "devices.per_node=64", "parallel={data: 16, tensor: 4}")
    plan["program"]["run"]["shares"] = [[0, 1, 2]] + [[0, 1]] * 255
    assert any("pictures: 513 (3 on one, 2 on each of 255)" in line for line in summary_lines(plan))
