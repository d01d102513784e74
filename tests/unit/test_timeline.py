"""What lies on a device over encode, denoise and decode."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from dcompile.facts.registry import load_model
from dcompile.memory.home import Kept
from dcompile.memory.peaks import PHASES, Peak, phases_of
from dcompile.memory.timeline import ShapedPeak, need_bytes, timeline

WAN = load_model("Wan-AI/Wan2.2-T2V-A14B-Diffusers")
HELD = {"text_encoder": 10, "text_encoder_2": 90, "transformer": 200, "vae": 5}
PEAKS = {
    "text_encoder": {"encode": ShapedPeak(Peak(1))},
    "text_encoder_2": {"encode": ShapedPeak(Peak(2))},
    "transformer": {"denoise": ShapedPeak(Peak(20, 2))},
    "vae": {"decode": ShapedPeak(Peak(50, 10), row=3)},
}


def of(offloaded: tuple[str, ...], held: dict[str, int] = HELD) -> dict[str, tuple[int, int, str | None]]:
    return {
        phase.name: (phase.weight_bytes, phase.activation_bytes, phase.called)
        for phase in timeline(held, PEAKS, offloaded).phases
    }


def test_what_is_not_offloaded_is_always_there() -> None:
    assert of(()) == {
        "encode": (305, 2, "text_encoder_2"),
        "denoise": (305, 20, "transformer"),
        "decode": (305, 50, "vae"),
    }


def test_one_offloaded_component_is_there_at_a_time() -> None:
    assert of(("text_encoder", "text_encoder_2", "transformer")) == {
        "encode": (95, 2, "text_encoder_2"),
        "denoise": (205, 20, "transformer"),
        "decode": (5, 50, "vae"),
    }


@pytest.mark.parametrize("count", range(len(HELD) + 1))
def test_the_fullest_phase_alone_is_that_of_the_timeline(count: int) -> None:
    for offloaded in combinations(HELD, count):
        for held in (HELD, {"vae": 5}, {}):
            for home in ({}, {"decode": Kept(0, 70, "vae")}, {"denoise": Kept(30), "decode": Kept(30, 60, "vae")}):
                need = timeline(held, PEAKS, offloaded, home).need_bytes
                assert need_bytes(held, PEAKS, offloaded, home) == need


def test_an_encoder_that_is_brought_over_lies_beside_what_stays() -> None:
    """Offloading encoders alone does not empty a device while they encode."""
    assert of(("text_encoder_2",))["encode"] == (305, 2, "text_encoder_2")
    assert of(("text_encoder_2",))["denoise"] == (215, 20, "transformer")


def test_the_fullest_moment_of_a_phase_counts() -> None:
    """A small visitor with small activations against a stay with large ones."""
    peaks = {**PEAKS, "text_encoder": {"encode": ShapedPeak(Peak(500))}}
    phase = timeline(HELD, peaks, ("text_encoder_2",)).phases[0]
    assert (phase.called, phase.weight_bytes, dict(phase.components)) == (
        "text_encoder",
        215,
        {name: size for name, size in HELD.items() if name != "text_encoder_2"},
    )


def test_a_phase_says_which_row_it_is_of() -> None:
    assert [phase.row for phase in timeline(HELD, PEAKS).phases] == [None, None, 3]


def test_a_device_without_the_component_that_is_called() -> None:
    assert of((), {"vae": 5}) == {"encode": (5, 0, None), "denoise": (5, 0, None), "decode": (5, 50, "vae")}


@pytest.mark.parametrize(
    ("name", "phases"),
    [
        ("text_encoder", ("encode",)),
        ("image_encoder", ("encode",)),
        ("transformer_2", ("denoise",)),
        ("vae", ("decode",)),
        ("connectors", ("encode",)),
        ("vocoder", ()),
        ("prior_head", PHASES),
    ],
)
def test_when_a_component_is_called(name: str, phases: tuple[str, ...]) -> None:
    assert phases_of(WAN, name) == phases


def test_a_pipeline_that_takes_pictures_encodes_them() -> None:
    assert phases_of(load_model("Wan-AI/Wan2.2-I2V-A14B-Diffusers"), "vae") == ("encode", "decode")


def test_the_plan_has_the_phases_of_every_device(compiled: Any) -> None:
    text = """
        version: 1
        model: {id: black-forest-labs/FLUX.1-dev}
        devices: {gpu: h100-sxm-80gb, per_node: 2}
        parallel: {device_map: {transformer: 0, text_encoder: 1, text_encoder_2: 1, vae: 1}}
        run: {prompts: [a fox]}
    """
    plan = compiled(text).plan_json
    assert plan is not None
    first, second = plan["devices"]
    assert [phase["phase"] for phase in first["phases"]] == list(PHASES)
    assert [phase["called"] for phase in first["phases"]] == [None, "transformer", None]
    assert [phase["called"] for phase in second["phases"]][-1] == "vae"
    for device in plan["devices"]:
        needs = [phase["weight_bytes"] + phase["activation_bytes"] for phase in device["phases"]]
        assert max(needs) == device["weight_bytes"] + device["activation_bytes"]
        assert all(phase["components"] == sorted(device["components"]) for phase in device["phases"])
