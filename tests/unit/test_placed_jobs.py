"""`device_map: balanced` of real models against every assignment of their components, by the loads of `plan.json`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest
from dcompile.driver import Compiled
from dcompile.facts.registry import load_model
from dcompile.memory.fit import Belongings, guests_of
from dcompile.rules.rule import Subject

Compile = Callable[..., Compiled]
WAN, LTX2 = "Wan-AI/Wan2.1-T2V-14B-Diffusers", "Lightricks/LTX-2"
REST = "components: {text_encoder: {offload: model}}"


def subject_of(compiled: Compile, model: str, devices: str, parallel: str, run: str = "{prompts: [a]}") -> Subject:
    text = f"version: 1\nmodel: {{id: {model}, dtype: bfloat16}}\ndevices: {devices}\n"
    plan = compiled(f"{text}parallel: {parallel}\nrun: {run}\n").plan
    assert plan is not None
    return plan.checked.subject


def fullness(subject: Subject, owned: Belongings) -> float:
    """Of the fullest device, in its fullest phase."""
    facts, guests = subject.facts, guests_of(subject.facts, subject.splits)
    rooms = [(facts.devices.memory_bytes(i) or 0) - facts.devices.reserve_bytes for i in range(len(owned.held))]
    needs = [owned.timeline(i, guests).need_bytes for i in range(len(owned.held))]
    return max(need / room for need, room in zip(needs, rooms, strict=True))


def placed(owned: Belongings, devices: tuple[int, ...]) -> Belongings:
    """The same job with its components on these devices."""
    sizes = {name: sum(held.values()) for name, held in owned.placement.bytes_of.items()}
    at = dict(zip(sizes, devices, strict=True))
    held = tuple({name: sizes[name] for name in at if at[name] == i} for i in range(len(owned.held)))
    return replace(owned, held=held, placement=replace(owned.placement, device_of=at))


@pytest.mark.parametrize(
    ("model", "devices", "more"),
    [
        ("black-forest-labs/FLUX.1-dev", "{gpu: a100-sxm-40gb, per_node: 2}", ""),
        ("zai-org/CogVideoX-2b", "{gpu: a100-sxm-40gb, per_node: 3}", ""),
        ("genmo/mochi-1-preview", "{gpus: [l40s, rtx-4090, l40s]}", ""),
        (WAN, "{gpu: h100-sxm-80gb, per_node: 2}", ""),
        (WAN, "{gpu: h100-sxm-80gb, per_node: 2}", f", {REST}"),
        ("stabilityai/stable-diffusion-3.5-large", "{gpus: [rtx-4090, a100-sxm-40gb]}", ""),
        ("zai-org/CogVideoX-2b", "{gpu: a100-sxm-40gb, per_node: 3}", ", components: {vae: {device: 0}}"),
    ],
)
def test_the_fullest_device_is_as_empty_as_it_can_be(model: str, devices: str, more: str, compiled: Compile) -> None:
    subject = subject_of(compiled, model, devices, f"{{device_map: balanced{more}}}")
    owned = subject.owned
    every = product(range(len(owned.held)), repeat=len(owned.placement.device_of))
    if "vae: {device: 0}" in more:
        vae = list(owned.placement.device_of).index("vae")
        every = (one for one in every if one[vae] == 0)
    best = min(fullness(subject, placed(owned, one)) for one in every)
    assert fullness(subject, owned) == pytest.approx(best, rel=1e-9)


def test_a_clip_is_finished_where_the_pipeline_works(compiled: Compile) -> None:
    """Its home is with the text encoder, whose device has three copies of a clip of another's autoencoder."""
    run = "{prompts: [a], height: 720, width: 1280, frames: 81}"
    at = "{device_map: {text_encoder: 1, transformer: 0, vae: 0}}"
    owned = subject_of(compiled, WAN, "{gpu: h100-sxm-80gb, per_node: 2}", at, run).owned
    decode = owned.timeline(1, ()).phases[2]
    assert (decode.called, decode.activation_bytes) == ("vae", 3 * 3 * 81 * 720 * 1280 * 2)
    assert owned.timeline(0, ()).phases[2].activation_bytes > decode.activation_bytes


def test_states_that_are_kept_lie_where_the_pipeline_works(compiled: Compile) -> None:
    """LTX-2: every hidden state of Gemma, for both branches and once more of one, beside the sound's autoencoder."""
    names = ("audio_vae", "connectors", "text_encoder", "vae", "vocoder")
    at = ", ".join(f"{name}: 1" for name in names)
    devices = "{gpu: h200-sxm, per_node: 2}"
    owned = subject_of(compiled, LTX2, devices, f"{{device_map: {{transformer: 0, {at}}}}}").owned
    config = load_model(LTX2).components["connectors"].config
    state = 1024 * config["caption_channels"] * config["text_proj_in_factor"] * 2
    away, home = (owned.timeline(device, ()).phases[1] for device in (0, 1))
    assert (home.called, home.activation_bytes) == ("transformer", 3 * state)
    assert away.activation_bytes == owned.peaks["transformer"]["denoise"].peak.peak_bytes
    alone = subject_of(compiled, LTX2, "{gpu: b300-sxm}", "{}").owned.timeline(0, ()).phases[1]
    assert alone.activation_bytes == home.activation_bytes + away.activation_bytes


def test_hidden_states_of_an_encoder_elsewhere_come_home(compiled: Compile) -> None:
    """FLUX.2: of Mistral's 40 blocks and its embedding, 512 tokens of 5120 each. The pipeline works where they are."""
    at = "{device_map: {text_encoder: 1, transformer: 0, vae: 0}}"
    subject = subject_of(compiled, "black-forest-labs/FLUX.2-dev", "{gpu: h100-sxm-80gb, per_node: 2}", at)
    assert subject.owned.placement.home == 1
    assert subject.owned.home["encode"].handed_bytes == 41 * 512 * 5120 * 2
