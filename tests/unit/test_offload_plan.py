"""Which components are offloaded, what it costs and saves, and what `auto` makes of it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import pytest
from dcompile.cli.explain import explain_lines, explanation
from dcompile.cli.summary import summary_lines
from dcompile.driver import Compiled
from dcompile.emit.words import layout_text
from dcompile.estimate.offload import offload_seconds, visits
from dcompile.facts.links import host_bytes_per_second
from dcompile.memory.fit import LEAST_FREE, belongings
from dcompile.memory.offloading import can_be_offloaded, device_needs, least_offload
from dcompile.rules.rule import Subject

Compile = Callable[..., Compiled]
FLUX = "black-forest-labs/FLUX.1-dev"
WAN = "Wan-AI/Wan2.2-T2V-A14B-Diffusers"
RUN = "{prompts: [a fox], height: 1024, width: 1024, steps: 28, seed: 1}"
ENOUGH = "{kind: cuda, memory: 999GiB}"


def text_of(model: str = FLUX, devices: str = "{gpu: rtx-4090}", parallel: str = "auto", run: str = RUN) -> str:
    return f"version: 1\nmodel: {{id: {model}}}\ndevices: {devices}\nparallel: {parallel}\nrun: {run}\n"


def subject_of(compiled: Compiled) -> Subject:
    assert compiled.plan is not None, compiled.diagnostics
    return compiled.plan.checked.subject


def offloaded(compiled: Compiled) -> set[str]:
    return set(subject_of(compiled).splits.offloaded)


@pytest.mark.parametrize("model", [FLUX, WAN, "Qwen/Qwen-Image", "stabilityai/stable-diffusion-3.5-large"])
@pytest.mark.parametrize("memory", ["16GiB", "24GiB", "32GiB", "48GiB", "64GiB"])
def test_the_fewest_bytes_that_fit(model: str, memory: str, compiled: Compile) -> None:
    """Against every set of components there is."""
    done = compiled(text_of(model, ENOUGH, "{}", "{prompts: [a fox], height: 480, width: 832}"))
    subject = subject_of(done)
    recipe, splits = subject.recipe, subject.splits
    size = int(memory.removesuffix("GiB")) * 2**30
    node = tuple(device.__class__(**{**vars(device), "memory_bytes": size}) for device in subject.facts.devices.node)
    devices = subject.facts.devices.__class__(**{**vars(subject.facts.devices), "node": node})
    facts = subject.facts.__class__(**{**vars(subject.facts), "devices": devices})
    owned = belongings(recipe, facts, splits)
    sizes = {name: sum(shares.values()) for name, shares in owned.placement.bytes_of.items()}
    sets = [frozenset(chosen) for count in range(len(sizes) + 1) for chosen in combinations(sizes, count)]
    need = {chosen: device_needs(owned, chosen)[0] for chosen in sets}
    room = size - devices.reserve_bytes
    found = least_offload(recipe, facts, splits, may_be_tight=True)
    loose = [chosen for chosen in sets if need[chosen] <= room - LEAST_FREE * size]
    if loose:
        assert found is not None
        assert found in loose
        assert sum(sizes[name] for name in found) == min(sum(sizes[name] for name in chosen) for chosen in loose)
    elif min(need.values()) <= room:
        assert found is not None
        assert need[found] == min(need.values())
        assert least_offload(recipe, facts, splits, may_be_tight=False) is None
    else:
        assert found is None


def test_where_memory_is_not_known_nothing_is_offloaded(compiled: Compile) -> None:
    subject = subject_of(compiled(text_of(devices="{kind: cpu}", parallel="{}")))
    assert least_offload(subject.recipe, subject.facts, subject.splits, may_be_tight=True) is None


def test_what_lies_on_several_devices_is_never_offloaded(compiled: Compile) -> None:
    cut = "{device_map: {transformer: [0, 1]}}"
    subject = subject_of(compiled(text_of(devices="{gpu: h100-sxm-80gb, per_node: 2}", parallel=cut)))
    assert [name for name in subject.splits.components if not can_be_offloaded(subject.splits, name)] == ["transformer"]


def test_a_rank_offloads_its_own_part(compiled: Compile) -> None:
    """FLUX.1-dev's transformer by two is 15.2 GB, which takes turns with the encoder on cards of 24 GB."""
    done = compiled(text_of(devices="{gpu: rtx-4090, per_node: 2}", parallel="{auto: {fixed: {tensor: 2}}}"))
    assert offloaded(done) >= {"transformer"}
    assert done.plan_json is not None
    for device in done.plan_json["devices"]:
        phases = {phase["phase"]: phase for phase in device["phases"]}
        assert "transformer" in phases["denoise"]["components"]
        assert "transformer" not in phases["encode"]["components"]
        assert device["components"]["transformer"]["weight_bytes"] == 15_194_470_528
    assert done.plan_json["estimate"]["offload_seconds"] >= 15_194_470_528 / 27.7e9


def test_auto_offloads_where_nothing_else_fits(compiled: Compile) -> None:
    """FLUX.1-dev on one card of 24 GB: the transformer alone fits."""
    done = compiled(text_of())
    assert offloaded(done) == {"text_encoder", "text_encoder_2", "transformer", "vae"}
    assert done.plan_json is not None
    (device,) = done.plan_json["devices"]
    assert device["components"].keys() == {"transformer"}
    assert [phase["components"] for phase in device["phases"]] == [["text_encoder_2"], ["transformer"], ["vae"]]
    (decision, *_) = done.plan_json["decisions"]
    assert "nothing fits without offloading" in decision["because"]
    assert done.plan_json["strategy"] == "single"


def test_auto_offloads_no_more_than_it_has_to(compiled: Compile) -> None:
    assert offloaded(compiled(text_of(devices="{gpu: rtx-5090}"))) == {"text_encoder_2", "transformer"}


def test_auto_offloads_where_that_is_faster(compiled: Compile) -> None:
    """Two cards of 32 GB and two prompts: replicas that offload need no exchange in each step."""
    done = compiled(text_of(devices="{gpu: rtx-5090, per_node: 2}", run=RUN.replace("a fox", "a fox, a hen")))
    assert offloaded(done) == {"text_encoder_2", "transformer"}
    assert done.choice is not None
    assert done.choice.winner.candidate.data == 2
    (decision, *_) = done.plan_json["decisions"] if done.plan_json else ()
    assert "without offloading `tensor: 2` is the best, and takes 19.1 s" in decision["because"]
    assert "62.08 GiB of memory on each host" in decision["because"]


def test_a_video_is_not_left_to_one_card_of_eight(compiled: Compile) -> None:
    """Wan 2.1 14B at 720p on cards of 40 GB: with the encoder at rest all eight work on it, not one after the other."""
    run = "{prompts: [a fox], height: 720, width: 1280, frames: 81, steps: 50, seed: 1}"
    done = compiled(text_of("Wan-AI/Wan2.1-T2V-14B-Diffusers", "{gpu: a100-sxm-40gb, per_node: 8}", run=run))
    assert done.choice is not None
    resting = "{text_encoder: {offload: model}, transformer: {offload: model}}"
    assert done.choice.winner.candidate.text == f"context: {{ulysses: 8}}, components: {resting}"
    staying = min(one.time for one in done.choice.judged if one.checked is not None and not one.candidate.offloads)
    assert staying > 7 * done.choice.winner.time


def test_copies_count_twice_in_the_order(compiled: Compile) -> None:
    """Their rate is nominal: a plan that is faster by less than its copies take is not preferred."""
    done = compiled(text_of(devices="{gpu: rtx-5090, per_node: 2}"))
    assert done.choice is not None
    for one in done.choice.judged:
        if one.offload_seconds is not None and one.seconds is not None:
            assert one.time == pytest.approx(one.seconds + one.offload_seconds)
    assert offloaded(done) == set()


def test_a_host_is_not_taken_to_be_larger_than_hosts_are(compiled: Compile) -> None:
    """More than twice the memory of its devices has to be said; then it is for the rules."""
    run = "{prompts: [a fox], height: 720, width: 1280, frames: 17, steps: 40, seed: 1}"
    devices = "{gpu: a100-sxm-40gb, per_node: 8, memory: 30GiB%s}"
    for said, answer in (("", False), (", host_memory: 900GiB", True)):
        done = compiled(text_of(WAN, devices % said, run=run))
        assert done.choice is not None
        full = [one for one in done.choice.judged if one.host_bytes > 8 * 60 * 2**30]
        assert full
        assert all(one.has_room_on_host is answer for one in full)
        chosen = done.choice.winner
        assert (chosen.host_bytes > 480 * 2**30) is answer


def test_forbidden_offload_is_named_as_a_way_out(compiled: Compile) -> None:
    done = compiled(text_of(parallel="{auto: {forbid: [offload]}}"))
    (found,) = done.diagnostics
    assert found.code == "DC590"
    assert "without `forbid: [offload]` it fits as `components: {text_encoder: {offload: model}" in found.hint


def test_offload_that_is_fixed_and_forbidden(compiled: Compile) -> None:
    fixed = "{auto: {fixed: {components: {vae: {offload: model}}}, forbid: [offload]}}"
    (found,) = compiled(text_of(parallel=fixed)).diagnostics
    assert (found.code, found.path) == ("DC490", ("parallel", "auto", "forbid", 0))


def test_offload_that_is_fixed(compiled: Compile) -> None:
    fixed = "{auto: {fixed: {components: {text_encoder_2: {offload: model}}}}}"
    assert offloaded(compiled(text_of(devices="{gpu: h100-sxm-80gb}", parallel=fixed))) == {"text_encoder_2"}


def test_what_does_not_fit_names_what_to_offload(compiled: Compile) -> None:
    (found,) = compiled(text_of(parallel="{}")).diagnostics
    assert found.code == "DC501"
    assert "`text_encoder_2`, `transformer`, `vae` offloaded" in found.hint
    assert "device 0 takes 23.6" in found.hint
    assert "of 23.99 GiB" in found.hint


def test_what_the_host_has_no_room_for_is_not_proposed(compiled: Compile) -> None:
    (found,) = compiled(text_of(devices="{gpu: rtx-4090, host_memory: 24GiB}", parallel="{}")).diagnostics
    assert "offload" not in found.hint


def test_explain_says_what_copying_takes(compiled: Compile) -> None:
    lines = list(explain_lines(explanation(compiled(text_of()))))
    assert any(line.startswith("  offload: 1.2") and "of each call" in line for line in lines)


def test_an_estimate_counts_the_copies(compiled: Compile) -> None:
    """A transformer of 23.8 GB over PCIe 4, once a call."""
    plain, moved = (
        compiled(text_of(devices="{gpu: l40s}", parallel=parallel)).plan_json
        for parallel in ("{}", "{components: {transformer: {offload: model}}}")
    )
    assert plain is not None
    assert moved is not None
    assert "offload_seconds" not in plain["estimate"]
    seconds = moved["estimate"]["offload_seconds"]
    assert seconds == pytest.approx(23_802_816_640 / 27.7e9)
    assert moved["estimate"]["total_seconds"] == pytest.approx(plain["estimate"]["total_seconds"] + seconds)


def test_two_encoders_come_twice_where_there_are_two_branches(compiled: Compile) -> None:
    subject = subject_of(compiled(text_of(devices=ENOUGH, parallel="{}")))
    assert [visits(subject.splits, name, 2) for name in ("text_encoder", "text_encoder_2", "transformer")] == [2, 2, 1]
    one = subject_of(compiled(text_of(WAN, ENOUGH, "{}")))
    assert visits(one.splits, "text_encoder", 2) == 1


def test_a_cpu_copies_nothing(compiled: Compile) -> None:
    parallel = "{components: {transformer: {offload: model}}}"
    subject = subject_of(compiled(text_of(devices="{kind: cpu}", parallel=parallel)))
    placement = subject.owned.placement
    assert offload_seconds(subject.facts, subject.splits, placement, 1) == 0


@pytest.mark.parametrize(
    ("link", "speed"), [("pcie4", 27.7e9), ("nvlink3", 27.7e9), ("nvlink4", 55.4e9), ("64GB/s", 13.9e9)]
)
def test_what_a_host_gives_follows_from_the_link(link: str, speed: float) -> None:
    assert host_bytes_per_second(link) == pytest.approx(speed)


def test_the_plan_says_that_a_cpu_saves_nothing(compiled: Compile) -> None:
    parallel = "{components: {transformer: {offload: model}}}"
    plan = compiled(text_of(devices="{kind: cpu}", parallel=parallel)).plan_json
    assert plan is not None
    assert plan["components"]["transformer"]["layout"] == {"kind": "replicated", "offload": "model"}
    assert "nothing is saved" in plan["components"]["transformer"]["because"]
    (device,) = plan["devices"]
    assert all("transformer" in phase["components"] for phase in device["phases"])


def test_offloading_makes_nothing_fit_on_a_cpu(compiled: Compile) -> None:
    """Its memory is the host's, which holds what rests too."""
    (found,) = compiled(text_of(devices="{kind: cpu, memory: 48GiB}", parallel="auto")).diagnostics
    assert found.code == "DC590"
    assert "offload" not in found.hint
    assert compiled(text_of(devices="{kind: cuda, memory: 48GiB}", run=RUN, parallel="auto")).is_valid


def test_what_rests_on_the_host_is_counted_there(compiled: Compile) -> None:
    """33.7 GB for each of two ranks; loading alone shares the pages of the encoders."""
    every = ", ".join(
        f"{name}: {{offload: model}}" for name in ("text_encoder_2", "transformer", "vae", "text_encoder")
    )
    devices = "{gpu: rtx-5090, per_node: 2, host_memory: 60GiB}"
    parallel = f"{{data: 2, components: {{{every}}}}}"
    (found,) = compiled(text_of(devices=devices, parallel=parallel, run=RUN.replace("a fox", "a, b"))).diagnostics
    assert (found.code, found.severity.value) == ("DC502", "error")
    assert found.message.startswith("loading and offloading take 62.85 GiB of host memory (2 ranks, 31.42 GiB each)")


def test_the_summary_says_what_rests_on_the_host(compiled: Compile) -> None:
    done = compiled(text_of(devices="{gpu: rtx-5090}"))
    assert done.plan_json is not None
    lines = " ".join(line.strip() for line in summary_lines(done.plan_json, 400))
    assert "rests on the host, and comes when it is called: text_encoder_2 8.87 GiB, transformer 22.17 GiB" in lines
    assert "to copy, each call; " in lines
    layout = done.plan_json["components"]["transformer"]["layout"]
    assert layout_text(layout) == "whole on every rank, while it is called; rests on the host"


def test_the_table_in_the_documentation(compiled: Compile) -> None:
    """Every number of `compiler/docs/memory.md`, section "Over the job", to half a percent: peaks are measured anew."""
    page = (Path(__file__).parents[2] / "compiler" / "docs" / "memory.md").read_text(encoding="utf-8")
    lines = page.partition("## Over the job")[2].partition("\n## ")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")][1:]
    assert len(rows) == 5
    every = ["text_encoder", "text_encoder_2", "transformer", "vae"]
    for what, *numbers, _ in rows:
        names = every if what.startswith("all four") else [name for name in every if f"`{name}`" in what]
        components = ", ".join(f"{name}: {{offload: model}}" for name in names)
        split, count = ("tensor: 2, ", 2) if "tensor" in what else ("", 1)
        devices, parallel = f"{{gpu: h200-sxm, per_node: {count}}}", f"{{{split}components: {{{components}}}}}"
        plan = compiled(text_of(devices=devices, parallel=parallel)).plan_json
        assert plan is not None
        device = plan["devices"][0]
        needs = [
            phase["weight_bytes"] + phase["activation_bytes"] + device["reserve_bytes"] for phase in device["phases"]
        ]
        assert [need / 2**30 for need in needs] == pytest.approx([float(number) for number in numbers], rel=0.005), what
