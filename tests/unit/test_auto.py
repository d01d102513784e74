"""`parallel: auto`: the documentation's table comes out, bounds hold, and the way out of no fit is computed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from dcompile.core.diagnostics import Diagnostic, Severity
from dcompile.driver import Compiled, compile_recipe
from dcompile.emit.plan_json import canonical_json
from dcompile.layout.splits import split_components
from dcompile.memory.alternatives import tightest
from dcompile.memory.fit import device_loads
from dcompile.plan.auto import judge as judging
from dcompile.plan.auto.bounds import Bounds
from dcompile.plan.auto.candidates import Candidate, candidates
from dcompile.plan.auto.judge import Judged
from dcompile.plan.auto.ladders import Job, ladders
from dcompile.plan.auto.rank import rank
from dcompile.recipe.model import Parallel

FLUX, FLUX2, QWEN = "black-forest-labs/FLUX.1-dev", "black-forest-labs/FLUX.2-dev", "Qwen/Qwen-Image"
WAN, WAN_SMALL = "Wan-AI/Wan2.1-T2V-14B-Diffusers", "Wan-AI/Wan2.1-T2V-1.3B-Diffusers"
TILES = "components: {vae: {tiling: true}}\n"
ONE, EIGHT = "{prompts: [a], seed: 1}", "{prompts: [a, b, c, d, e, f, g, h], seed: 1}"

Chosen = Callable[..., Compiled]


@pytest.fixture
def chosen(tmp_path: Path) -> Chosen:
    def compile_auto(model: str, devices: str, run: str = ONE, parallel: str = "auto", more: str = "") -> Compiled:
        file = tmp_path / "job.yaml"
        head = f"version: 1\nmodel: {{id: {model}, dtype: bfloat16}}\ndevices: {devices}\n"
        file.write_text(f"{head}parallel: {parallel}\nrun: {run}\n{more}", encoding="utf-8")
        return compile_recipe(file)

    return compile_auto


def plan_of(compiled: Compiled) -> str:
    """The plan that was chosen, as a recipe would have it."""
    assert compiled.choice is not None, compiled.diagnostics
    return compiled.choice.winner.candidate.text


def decision(compiled: Compiled, what: str) -> dict[str, Any]:
    assert compiled.plan_json is not None
    return next(one for one in compiled.plan_json["decisions"] if one["what"] == what)


# The documentation's table, by what limits the job.


def test_many_prompts_and_a_model_that_fits_give_data(chosen: Chosen) -> None:
    compiled = chosen(FLUX, "{gpu: h100-sxm-80gb, per_node: 4}", EIGHT)
    assert plan_of(compiled) == "data: 4"
    assert compiled.diagnostics == ()


def test_a_component_too_large_and_a_fast_link_give_tensor(chosen: Chosen) -> None:
    assert re.fullmatch(r"tensor: [68]", plan_of(chosen(FLUX2, "{gpu: h100-sxm-80gb, per_node: 8}")))
    # Its decode takes 3.4 GiB at 1024x1024: the encoder is split too, for a device to have room left.
    assert plan_of(chosen(QWEN, "{gpu: a100-sxm-40gb, per_node: 4}")).startswith("tensor: 4")


def test_a_component_too_large_and_a_slow_link_give_a_device_map(chosen: Chosen) -> None:
    compiled = chosen(FLUX, "{gpu: rtx-4090, per_node: 3, link: 2GB/s}")
    assert plan_of(compiled) == "device_map: {transformer: [0, 1]}"
    assert any(other.startswith("tensor: ") for other in decision(compiled, "parallel")["alternatives"])
    assert decision(compiled, "devices")["chosen"] == "2 of 3"


def test_two_cards_on_pcie_are_near_enough_for_tensor(chosen: Chosen) -> None:
    """All of it (53.7 GiB) has no room on one card. Two PCIe 4 cards gained by tensor (vipshop/cache-dit)."""
    devices = "{gpu: l20, memory: 42GiB, per_node: 2}"
    assert plan_of(chosen(QWEN, devices, parallel="{auto: {forbid: [offload]}}")).startswith("tensor: 2")
    # With the encoder out of the way by offload both work on the sequence, as in cache-dit's own run (181 to 133 s).
    compiled = chosen(QWEN, devices)
    assert plan_of(compiled).startswith("context: {ulysses: 2, uneven: true}, components: {text_encoder: {offload")
    assert any(other.startswith("tensor: 2") for other in decision(compiled, "parallel")["alternatives"])


def test_eight_cards_without_peer_access_lose_by_tensor(chosen: Chosen) -> None:
    compiled = chosen(FLUX, "{gpu: rtx-4090, per_node: 8}")
    assert compiled.choice is not None
    by_text = {one.candidate.text: one for one in compiled.choice.judged if one.checked is not None}
    placed = by_text["device_map: {transformer: [0, 1]}"]
    for degree in (4, 6, 8):
        assert by_text[f"tensor: {degree}"].time > placed.time
    assert by_text["tensor: 8"].time > 2 * placed.time
    # Two of the eight are near enough, once the encoder makes room (`pcie4` of two cards).
    assert plan_of(compiled).startswith("tensor: 2, components: {text_encoder_2: {offload: model}")


def test_where_slow_begins_is_for_the_estimate(chosen: Chosen) -> None:
    # The same cards with peer access: there tensor parallel won (vipshop/cache-dit, FLUX.1 on L20).
    within = chosen(FLUX, "{gpu: rtx-4090, per_node: 4, link: pcie4-peer}")
    assert plan_of(within).startswith("tensor: ")


def test_components_that_fit_singly_and_not_together_give_a_device_map(chosen: Chosen) -> None:
    compiled = chosen("stabilityai/stable-diffusion-3.5-large", "{gpu: rtx-4090, per_node: 2}")
    winner = plan_of(compiled)
    assert winner.startswith("device_map: {")
    assert "[" not in winner
    assert compiled.plan_json is not None
    placed = [name for device in compiled.plan_json["devices"] for name in device["components"]]
    assert sorted(placed) == sorted(compiled.plan_json["components"])


def test_activations_that_are_too_large_give_context(chosen: Chosen) -> None:
    # The weights of FLUX.1 have room on one card; what 262,144 tokens take besides has not.
    run = "{prompts: [a], height: 8192, width: 8192, seed: 1}"
    compiled = chosen(FLUX, "{gpu: l20, per_node: 4, link: pcie4-peer}", run, more=TILES)
    assert plan_of(compiled) == "context: {ulysses: 4}"
    assert compiled.choice is not None
    single = next(one for one in compiled.choice.judged if one.candidate.kind == "single")
    assert single.is_too_large
    assert single.load is not None
    assert single.load.weight_bytes < (single.load.room_bytes or 0)
    assert single.load.peak == "transformer"


@pytest.mark.parametrize(
    ("model", "count", "plan"),
    [
        (WAN, 8, "context: {ulysses: 8}"),
        (WAN_SMALL, 8, "context: {ulysses: 4, ring: 2}"),  # 12 heads
        (WAN_SMALL, 5, "context: {ring: 5}"),
    ],
)
def test_long_sequences_give_ulysses_then_unified_then_ring(chosen: Chosen, model: str, count: int, plan: str) -> None:
    run = "{prompts: [a], height: 480, width: 832, frames: 81, seed: 1}"
    assert plan_of(chosen(model, f"{{gpu: h100-sxm-80gb, per_node: {count}}}", run)) == plan


def test_lengths_that_do_not_divide_give_uneven(chosen: Chosen) -> None:
    run = "{prompts: [a], height: 1328, width: 1328, seed: 1}"
    compiled = chosen(QWEN, "{gpu: h100-sxm-80gb, per_node: 4}", run)
    assert plan_of(compiled) == "context: {ulysses: 4, uneven: true}"


def test_weights_and_sequence_too_large_say_what_cannot_be_and_what_can(chosen: Chosen) -> None:
    run = "{prompts: [a, b, c, d, e, f, g, h], batch: 8, height: 4096, width: 4096, seed: 1}"
    compiled = chosen(FLUX, "{gpu: rtx-4090, per_node: 4}", run, more=TILES)
    (found,) = compiled.diagnostics
    assert found.code == "DC590"
    assert "`tensor` and by `context` at once" in found.hint
    assert compiled.plan is None
    batch = re.search(r"`batch: (\d)` fits as", found.hint)
    assert batch is not None
    assert chosen(
        FLUX, "{gpu: rtx-4090, per_node: 4}", run.replace("batch: 8", f"batch: {batch[1]}"), more=TILES
    ).is_valid


# Where nothing fits.


def test_every_change_that_is_proposed_makes_a_plan_fit(chosen: Chosen, tmp_path: Path) -> None:
    devices, run = "{gpu: rtx-4090, per_node: 2}", "{prompts: [a], height: 720, width: 1280, frames: 81, seed: 1}"
    model = "Wan-AI/Wan2.2-T2V-A14B-Diffusers"
    (found,) = chosen(model, devices, run).diagnostics
    assert found.code == "DC590"
    changes = dict(re.findall(r"`(per_node|gpu): ([\w-]+)`", found.hint))
    assert set(changes) == {"per_node", "gpu"}
    more = chosen(model, f"{{gpu: rtx-4090, per_node: {changes['per_node']}}}", run)
    assert more.choice is not None
    assert any(f"fits as `{one.candidate.text}`" in found.hint for one in more.choice.judged if one.checked is not None)
    one_less = chosen(model, f"{{gpu: rtx-4090, per_node: {int(changes['per_node']) - 1}}}", run)
    assert [one.code for one in one_less.diagnostics] == ["DC590"]
    assert chosen(model, f"{{gpu: {changes['gpu']}, per_node: 2}}", run).is_valid


def test_a_smaller_picture_or_tiles_are_proposed_where_they_help(chosen: Chosen) -> None:
    run = "{prompts: [a], height: 4096, width: 4096, seed: 1}"
    (found,) = chosen("stabilityai/stable-diffusion-xl-base-1.0", "{gpu: rtx-4090}", run).diagnostics
    assert found.code == "DC590"
    assert "`components: {vae: {tiling: true}}` fits as `one device`" in found.hint
    size = re.search(r"(\d+)x(\d+) pixels fit as", found.hint)
    assert size is not None
    smaller = f"{{prompts: [a], height: {size[2]}, width: {size[1]}, seed: 1}}"
    assert chosen("stabilityai/stable-diffusion-xl-base-1.0", "{gpu: rtx-4090}", smaller).is_valid


def test_a_proposal_is_whole_however_long(chosen: Chosen) -> None:
    run = "{prompts: [a], height: 720, width: 1280, frames: 81, seed: 1}"
    (found,) = chosen("Wan-AI/Wan2.2-T2V-A14B-Diffusers", "{gpu: rtx-4090, per_node: 2}", run).diagnostics
    plans = re.findall(r"fits? as `([^`]+)`", found.hint)
    assert max(map(len, plans)) > 60
    for plan in plans:
        written = yaml.safe_load("{" + plan + "}") if plan != "one device" else {}
        Parallel.model_validate(json.loads(json.dumps(written)), strict=False)
    cut = Diagnostic("DC590", Severity.ERROR, f"`{'m' * 481}`", f"`{'h' * 480}` `{'i' * 481}`")
    assert f"`{'h' * 480}`" in cut.hint
    assert "`iii" in cut.hint
    assert len(cut.hint) < 900
    assert len(cut.message) < 120


def test_a_proposal_needs_no_help_of_the_margin(chosen: Chosen) -> None:
    run = "{prompts: [a], height: 720, width: 1280, frames: 81, seed: 1}"
    (found,) = chosen("Wan-AI/Wan2.2-T2V-A14B-Diffusers", "{gpu: rtx-4090, per_node: 2}", run).diagnostics
    said = re.findall(r"\((\d+\.\d+) GiB of (\d+\.\d+) GiB\)", found.hint)
    assert len(said) >= 2
    assert all(float(used) <= float(memory) for used, memory in said)


def test_fewer_frames_are_proposed_where_they_help(chosen: Chosen) -> None:
    run = "{prompts: [a], height: 480, width: 832, frames: %s, seed: 1}"
    (found,) = chosen(WAN_SMALL, "{gpu: rtx-4090}", run % 3201).diagnostics
    frames = re.search(r"`frames: (\d+)` fits as", found.hint)
    assert frames is not None, found.hint
    assert int(frames[1]) % 4 == 1
    assert chosen(WAN_SMALL, "{gpu: rtx-4090}", run % frames[1]).is_valid


def test_where_no_change_alone_helps_two_together_are_proposed(chosen: Chosen) -> None:
    model, run = "stabilityai/stable-diffusion-xl-base-1.0", "{prompts: [a], height: 16384, width: 16384, seed: 1}"
    (found,) = chosen(model, "{gpu: rtx-4090}", run).diagnostics
    assert " fits as " not in found.hint
    assert found.hint.count(" together fit as ") == 3
    tiled = "`components: {vae: {tiling: true}}` together fit as `one device`"
    size = re.search(rf"(\d+)x(\d+) pixels and {re.escape(tiled)}", found.hint)
    assert size is not None
    smaller = f"{{prompts: [a], height: {size[2]}, width: {size[1]}, seed: 1}}"
    assert chosen(model, "{gpu: rtx-4090}", smaller, more=TILES).is_valid
    assert [one.code for one in chosen(model, "{gpu: rtx-4090}", smaller).diagnostics] == ["DC590"]


def test_on_several_nodes_more_nodes_are_proposed(chosen: Chosen) -> None:
    devices = "{gpu: rtx-4090, memory: 13GiB, per_node: 1, nodes: %s, node_link: infiniband-800}"
    (found,) = chosen(FLUX, devices % 2).diagnostics
    assert found.code == "DC590"
    nodes = re.search(r"`nodes: (\d+)` fits as", found.hint)
    assert nodes is not None, found.hint
    assert chosen(FLUX, devices % nodes[1]).is_valid


def test_eight_bit_weights_are_proposed_once_the_rules_let_them_be(chosen: Chosen) -> None:
    eight_bit = "components: {transformer: {quantize: {method: torchao, type: int8wo}}}\n"
    refused = {one.code for one in chosen(FLUX, "{gpu: h100-sxm-80gb}", more=eight_bit).diagnostics}
    (found,) = chosen(FLUX, "{gpu: l4}", ONE).diagnostics
    assert ("quantize" in found.hint) == ("DC400" not in refused)


@pytest.mark.parametrize("run", ["{prompts: [a], seed: 1}", "{prompts: [a, b, c, d], batch: 4, frames: 129, seed: 1}"])
def test_steps_of_a_ladder_need_less_and_less(chosen: Chosen, run: str) -> None:
    model = "hunyuanvideo-community/HunyuanVideo" if "frames" in run else FLUX
    (found,) = chosen(model, "{gpu: l4}", run).diagnostics
    assert found.code == "DC590"
    compiled = chosen(model, "{gpu: mi325x}", run)
    assert compiled.choice is not None
    assert compiled.recipe is not None
    job = Job(compiled.recipe, compiled.choice.checked.subject.facts)
    kinds = ladders(job)
    assert len(kinds) >= 4
    for ladder in kinds:
        texts = [step.text for step in ladder]
        assert len(texts) == len(set(texts))
        needs = []
        for step in ladder:
            after = step.apply(job)
            tried = after.recipe.model_copy(update={"parallel": Parallel()})
            load = tightest(device_loads(tried, after.facts, split_components(tried, after.facts.model)))
            needs.append(load.need_bytes - (load.room_bytes or 0))
        assert needs == sorted(needs, reverse=True), texts


# Bounds.


def test_what_is_fixed_stays_and_what_is_forbidden_is_not_tried(chosen: Chosen) -> None:
    bounds = "{auto: {fixed: {data: 2}, forbid: [tensor, device_map, offload]}}"
    compiled = chosen(FLUX, "{gpu: h100-sxm-80gb, per_node: 8}", EIGHT, bounds)
    assert plan_of(compiled) == "data: 2, context: {ulysses: 4}"
    assert compiled.choice is not None
    for one in compiled.choice.judged:
        assert one.candidate.data == 2
        assert one.candidate.kind in ("single", "ulysses", "unified", "ring")


@pytest.mark.parametrize(
    ("fixed", "plan"),
    [
        ("{tensor: 2}", "data: 4, tensor: 2"),
        ("{context: {ring: 2}}", "data: 4, context: {ring: 2}"),
        ("{device_map: {transformer: [0, 1]}}", "data: 4, device_map: {transformer: [0, 1]}"),
        ("{tensor: 4, data: 1}", "tensor: 4"),
    ],
)
def test_a_fixed_split_leaves_the_replicas_open(chosen: Chosen, fixed: str, plan: str) -> None:
    compiled = chosen(FLUX, "{gpu: h100-sxm-80gb, per_node: 8}", EIGHT, f"{{auto: {{fixed: {fixed}}}}}")
    assert plan_of(compiled) == plan


@pytest.mark.parametrize(
    ("bounds", "code", "path"),
    [
        ("{auto: {fixed: {tensr: 2}}}", "DC490", "fixed.tensr"),
        ("{auto: {fixed: {data: many}}}", "DC490", "fixed.data"),
        ("{auto: {fixed: {data: 0}}}", "DC490", "fixed.data"),
        ("{auto: {fixed: {auto: {}}}}", "DC490", "fixed.auto"),
        ("{auto: {forbid: [tensors]}}", "DC490", "forbid.0"),
        ("{auto: {fixed: {tensor: 2}, forbid: [tensor]}}", "DC490", "forbid.0"),
        ("{auto: {fixed: {data: 16}}}", "DC490", ""),
        ("{auto: {}, data: 2}", "DC491", "data"),
        ("{auto: {fixed: {tensor: 5}}}", "DC401", "fixed.tensor"),
        ("{auto: {fixed: {tensor: 2, context: {ulysses: 2}}}}", "DC404", "fixed"),
    ],
)
def test_a_bound_that_cannot_be_kept_is_said_where_it_stands(chosen: Chosen, bounds: str, code: str, path: str) -> None:
    compiled = chosen(FLUX, "{gpu: h100-sxm-80gb, per_node: 8}", EIGHT, bounds)
    assert [one.code for one in compiled.diagnostics] == [code], compiled.diagnostics
    where = ".".join(map(str, compiled.diagnostics[0].path))
    assert path in where
    assert where.startswith("parallel")
    assert compiled.diagnostics[0].hint


def test_what_is_wrong_with_the_job_is_said_once(chosen: Chosen) -> None:
    compiled = chosen(FLUX, "{gpu: h100-sxm-80gb, per_node: 8}", "{prompts: [a], args: {no_such: 1}}")
    assert [one.code for one in compiled.diagnostics] == ["DC306"]


def test_a_warning_about_the_job_stays(chosen: Chosen) -> None:
    compiled = chosen(FLUX, "{gpu: h100-sxm-80gb, per_node: 2}", "{prompts: [a], height: 1024, width: 1030, seed: 1}")
    assert [one.code for one in compiled.diagnostics] == ["DC308"]
    assert compiled.is_valid


# The plan.


def test_the_plan_is_that_of_the_recipe_which_names_it(chosen: Chosen) -> None:
    auto = chosen(FLUX, "{gpu: h100-sxm-80gb, per_node: 4}", EIGHT)
    named = chosen(FLUX, "{gpu: h100-sxm-80gb, per_node: 4}", EIGHT, f"{{{plan_of(auto)}}}")
    assert auto.plan_json is not None
    assert named.plan_json is not None
    for key in ("mesh", "strategy", "devices", "components", "traffic", "estimate", "program"):
        assert auto.plan_json[key] == named.plan_json[key]
    assert auto.plan_json["recipe_digest"] != named.plan_json["recipe_digest"]
    assert decision(auto, "parallel")["chosen"] == "data: 4"
    assert len(decision(auto, "parallel")["alternatives"]) == 2
    assert all("times as long" in other for other in decision(auto, "parallel")["alternatives"])


def test_the_choice_is_the_same_every_time(chosen: Chosen) -> None:
    devices = "{gpu: l40s, per_node: 6}"
    first, second = (canonical_json(chosen(QWEN, devices, EIGHT).plan_json or {}) for _ in range(2))
    assert first == second
    assert json.loads(first)["decisions"][0]["what"] == "parallel"


def test_no_plan_that_fits_is_faster_than_the_winner(chosen: Chosen) -> None:
    for model, devices, run in (
        (FLUX, "{gpu: h100-sxm-80gb, per_node: 8}", EIGHT),
        (QWEN, "{gpu: l40s, per_node: 4}", ONE),
        (WAN, "{gpu: a100-sxm-80gb, per_node: 6}", ONE),
    ):
        compiled = chosen(model, devices, run)
        assert compiled.choice is not None
        winner = compiled.choice.winner
        fitting = [one for one in compiled.choice.judged if one.checked is not None and not one.warns]
        assert winner.time <= min(one.time for one in fitting) * 1.01
        assert any(winner is one for one in fitting)


def test_the_rules_are_the_only_judge(chosen: Chosen, tmp_path: Path) -> None:
    compiled = chosen(QWEN, "{gpu: a100-sxm-40gb, per_node: 4}", "{prompts: [a], height: 1328, width: 1328, seed: 1}")
    assert compiled.choice is not None
    text = (tmp_path / "job.yaml").read_text()
    for one in compiled.choice.judged:
        value = one.candidate.parallel.model_dump(exclude_none=True, exclude_unset=True)
        (tmp_path / "job.yaml").write_text(text.replace("parallel: auto", f"parallel: {json.dumps(value)}"))
        alone = compile_recipe(tmp_path / "job.yaml")
        assert alone.is_valid == (one.checked is not None), one.candidate.text
        errors = {found.code for found in alone.diagnostics if found.severity.value == "error"}
        assert errors == ({"DC501"} if one.is_too_large else {
            found.code for found in one.diagnostics if found.severity.value == "error"
        })  # fmt: skip


def test_devices_of_unknown_speed_are_shared_out_by_work(chosen: Chosen) -> None:
    compiled = chosen(FLUX, "{kind: cuda, memory: 80GiB, per_node: 4}", EIGHT)
    assert plan_of(compiled) == "data: 4"
    assert "speed of these devices is not known" in decision(compiled, "parallel")["because"]
    assert compiled.plan_json is not None
    assert "estimate" not in compiled.plan_json


def test_a_cpu_without_a_number_of_devices_runs_as_one(chosen: Chosen) -> None:
    assert plan_of(chosen(FLUX, "{kind: cpu}", EIGHT)) == "one device"


def test_replicas_are_no_more_than_the_prompts_keep_busy(chosen: Chosen) -> None:
    prompts = "{prompts: [" + ", ".join(f"p{i}" for i in range(17)) + "], seed: 1}"
    compiled = chosen(FLUX, "{gpu: h100-sxm-80gb, per_node: 16}", prompts, "{auto: {forbid: [context, tensor]}}")
    assert plan_of(compiled) == "data: 9"  # 17 on 16 take two rounds, as 17 on 9 do
    assert decision(compiled, "devices")["chosen"] == "9 of 16"


# The search.


def test_candidates_are_never_two_of_a_kind(chosen: Chosen) -> None:
    compiled = chosen(FLUX2, "{gpu: h100-sxm-80gb, per_node: 12}", EIGHT)
    assert compiled.recipe is not None
    assert compiled.choice is not None
    facts = compiled.choice.checked.subject.facts
    groups = list(candidates(compiled.recipe, facts, Bounds(Parallel(), frozenset()), 12))
    texts = [one.text for group in groups for one in group]
    assert len(texts) == len(set(texts))
    assert all(one.devices <= 12 for group in groups for one in group)
    again = list(candidates(compiled.recipe, facts, Bounds(Parallel(), frozenset()), 12))
    assert [group[0].text for group in again] == [group[0].text for group in groups]


def test_time_comes_before_devices_and_devices_before_simplicity(chosen: Chosen) -> None:
    compiled = chosen(FLUX, "{gpu: h100-sxm-80gb}")
    assert compiled.choice is not None
    base = compiled.choice.winner

    def made(seconds: float, devices: int, kind: str) -> Judged:
        candidate = Candidate(Parallel(data=devices), kind, 1, devices)
        return replace(base, candidate=candidate, seconds=seconds)

    fast, few, plain = made(1.0, 8, "ring"), made(1.005, 4, "ring"), made(1.005, 8, "ulysses")
    slow, later = made(2.0, 1, "single"), made(1.02, 1, "single")
    ordered = rank([slow, plain, fast, later, few])
    assert [id(one) for one in ordered] == [id(one) for one in (few, plain, fast, later, slow)]


def test_an_auto_recipe_is_valid_yaml_of_the_schema(chosen: Chosen) -> None:
    compiled = chosen(FLUX2, "{gpu: h100-sxm-80gb, per_node: 8}", EIGHT)
    written = yaml.safe_load("{" + plan_of(compiled) + "}")
    assert Parallel.model_validate(written) == Parallel.model_validate(
        compiled.choice.winner.candidate.parallel.model_dump(exclude_none=True)  # type: ignore[union-attr]
    )


def test_a_placement_that_fits_ends_the_search_for_more_devices(
    chosen: Chosen, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[Candidate] = []
    real = judging.judge

    def count(recipe: Any, facts: Any, candidate: Candidate, *subject: Any) -> Judged:
        tried.append(candidate)
        return real(recipe, facts, candidate, *subject)

    monkeypatch.setattr(judging, "judge", count)
    compiled = chosen(FLUX, "{gpu: rtx-4090, per_node: 8}")
    assert compiled.choice is not None
    cuts = [one for one in tried if one.kind == "cut"]
    assert [one.devices for one in cuts] == [2]


def test_beside_a_smaller_picture_a_pair_that_keeps_it_is_named(chosen: Chosen) -> None:
    """Mochi on 24 GB: nobody wants 37 frames where tiles and weights of eight bits make all 85 fit."""
    run = "{prompts: [a], height: 480, width: 848, frames: 85, seed: 1}"
    compiled = chosen("genmo/mochi-1-preview", "{gpu: rtx-4090}", run)
    (found,) = compiled.diagnostics
    assert found.code == "DC590"
    ways = found.hint.split("; ")
    assert any(re.match(r"`frames: \d+` fits", way) for way in ways)
    assert sum(" together fit as " in way for way in ways) == 1
    assert ways[-1].startswith(
        "`components: {transformer: {quantize: {method: torchao, type: int8wo}}}` and `components"
    )
    eight, tiles = "{quantize: {method: torchao, type: int8wo}}", "{tiling: true}"
    more = f"components: {{transformer: {eight}, vae: {tiles}}}\n"
    assert chosen("genmo/mochi-1-preview", "{gpu: rtx-4090}", run, more=more).choice is not None
    for one in (f"components: {{transformer: {eight}}}\n", f"components: {{vae: {tiles}}}\n"):
        assert chosen("genmo/mochi-1-preview", "{gpu: rtx-4090}", run, more=one).choice is None


def test_a_plan_that_needs_the_margin_is_named_and_not_chosen(chosen: Chosen) -> None:
    """CogVideoX decodes 38 GiB by the estimate, on 24: `auto` proves that a plan fits, or does not choose it."""
    run, devices = "{prompts: [a], height: 480, width: 720, frames: 49, seed: 1}", "{gpu: rtx-4090, per_node: 4}"
    (found,) = chosen("zai-org/CogVideoX-5b", devices, run).diagnostics
    assert found.code == "DC590"
    assert "`components: {vae: {tiling: true}}` fits as" in found.hint
    tried = re.search(r"`(device_map: [^`]+)` is within the estimate's margin", found.hint)
    assert tried is not None
    named = chosen("zai-org/CogVideoX-5b", devices, run, parallel=f"{{{tried[1]}}}")
    assert named.is_valid
    assert "DC501" in {one.code for one in named.diagnostics}
    assert chosen("zai-org/CogVideoX-5b", devices, run, more=TILES).diagnostics == ()


def test_a_plan_that_is_nearly_full_loses_to_one_that_offloads(chosen: Chosen) -> None:
    """FLUX.1-dev with half a GiB to spare: with the text encoders at rest there is room, for a second of copies."""
    done = chosen(FLUX, "{gpu: a100-sxm-40gb, per_node: 1, memory: 35.3GiB}")
    assert done.diagnostics == ()
    assert "offload: model" in plan_of(done)
    assert "without offloading nothing fits with room to spare" in decision(done, "parallel")["because"]
    (warned,) = chosen(FLUX, "{gpu: a100-sxm-40gb, per_node: 1, memory: 35.3GiB}", parallel="{}").diagnostics
    assert warned.code == "DC503"


def test_a_host_that_is_too_small_is_named(chosen: Chosen) -> None:
    (found,) = chosen(FLUX, "{gpu: rtx-4090, host_memory: 16GiB}").diagnostics
    size = re.search(r"`host_memory: (\d+)GiB` fits as", found.hint)
    assert size is not None, found.hint
    assert chosen(FLUX, f"{{gpu: rtx-4090, host_memory: {size[1]}GiB}}").choice is not None


def test_a_proposal_leaves_room_where_one_does(chosen: Chosen) -> None:
    """Qwen-Image on one L4: three would leave 20 MiB, so four are named, and what is named warns of nothing."""
    (found,) = chosen(QWEN, "{gpu: l4, per_node: 1}").diagnostics
    more = re.search(r"`per_node: (\d+)` fits as", found.hint)
    assert more is not None, found.hint
    assert chosen(QWEN, f"{{gpu: l4, per_node: {more[1]}}}").diagnostics == ()
    (tight,) = chosen(FLUX, "{gpu: rtx-4090, host_memory: 16GiB}").diagnostics
    assert "nearly full)" in tight.hint


def test_a_faster_plan_that_warns_is_named(chosen: Chosen) -> None:
    """Qwen-Image with a text of 7 tokens on 8 ranks: what a longer prompt would give is said."""
    done = chosen(QWEN, "{gpu: h100-sxm-80gb, per_node: 8}", "{prompts: [a fox], seed: 1}")
    because = decision(done, "devices")["because"]
    assert "`context: {ulysses: 8, uneven: true}` would take 98% of the time, but DC403" in because


def test_an_offload_that_the_recipe_fixes_is_no_lack_of_room(chosen: Chosen) -> None:
    fixed = "{auto: {fixed: {components: {text_encoder_2: {offload: model}}}}}"
    done = chosen(FLUX, "{gpu: h100-sxm-80gb, per_node: 1}", parallel=fixed)
    assert "nothing fits without offloading" not in decision(done, "parallel")["because"]


def test_tiles_are_the_way_out_of_a_decode_that_fills_a_device(chosen: Chosen) -> None:
    devices = "{gpu: a100-sxm-40gb, per_node: 1}"
    full = chosen("zai-org/CogVideoX-2b", devices, parallel="{device_map: {text_encoder: 0, transformer: 0, vae: 0}}")
    assert "`components: {vae: {tiling: true}}` fits" in "".join(found.hint or "" for found in full.diagnostics)


COG, KANDINSKY = "zai-org/CogVideoX-2b", "kandinskylab/Kandinsky-5.0-T2V-Lite-sft-5s-Diffusers"


def test_a_packing_counts_what_each_component_needs_while_it_is_called(chosen: Chosen) -> None:
    """By weights alone the autoencoder, whose decode takes 38 GiB, would share its card with the encoder."""
    compiled = chosen(COG, "{gpu: a100-sxm-40gb, per_node: 4}")
    assert plan_of(compiled) == "device_map: {text_encoder: 0, transformer: 0, vae: 1}"
    assert compiled.choice is not None
    assert all(
        one.subject.loads[one.subject.splits.components["vae"].devices[0]].peak == "vae"
        for one in compiled.choice.judged
        if one.candidate.kind == "device_map"
    )


def test_whole_components_on_two_cards_come_before_one_cut_over_five(chosen: Chosen) -> None:
    compiled = chosen(KANDINSKY, "{gpu: rtx-4090, per_node: 8}")
    assert compiled.choice is not None
    winner = compiled.choice.winner.candidate
    assert (winner.kind, winner.devices) == ("device_map", 2)
    assert compiled.choice.winner.load is not None
    assert compiled.choice.winner.load.need_bytes < 22 * 2**30


def test_blocks_beside_a_component_leave_room_for_its_peak(chosen: Chosen) -> None:
    """Mochi on three cards: by weights as many blocks would lie beside the autoencoder that its decode has no room."""
    compiled = chosen("genmo/mochi-1-preview", "{gpu: l4, per_node: 8}")
    assert compiled.choice is not None
    cut = [one for one in compiled.choice.judged if one.candidate.kind == "cut" and one.candidate.devices == 3]
    assert [one.candidate.parallel.device_map for one in cut if one.checked is not None] == [{"transformer": (0, 1, 2)}]
    load = cut[0].load
    assert load is not None
    assert load.peak == "vae"
    assert load.components["transformer"] < 2**30


def test_the_denoiser_is_cut_where_the_largest_component_is_another(chosen: Chosen) -> None:
    """Kandinsky 5 has the denoiser's activations for the fullest thing, and its encoder for the largest."""
    run = "{prompts: [a fox], seed: 1, height: 2048, width: 2048, batch: 2}"
    tiles = "components: {vae: {tiling: true}}"
    video = "kandinskylab/Kandinsky-5.0-T2V-Lite-sft-5s-Diffusers"
    compiled = chosen(video, "{gpu: rtx-a6000, per_node: 8}", run, "{auto: {forbid: [data]}}", tiles)
    assert plan_of(compiled).startswith("device_map: {transformer: [0, 1,")


@pytest.mark.parametrize("parallel", ["auto", "{auto: {fixed: {device_map: balanced}}}"])
@pytest.mark.parametrize("devices", ["{gpu: l4, per_node: 8}", "{gpus: [l4, l40s, l4, rtx-4090]}"])
def test_no_candidate_counts_a_device_that_it_leaves_empty(parallel: str, devices: str, chosen: Chosen) -> None:
    compiled = chosen("Lightricks/LTX-Video", devices, "{prompts: [a], seed: 1, frames: 9}", parallel)
    assert compiled.choice is not None
    plans = [one.candidate.text for one in compiled.choice.judged]
    assert len(plans) == len(set(plans))
    empty = {one.candidate.text for one in compiled.choice.judged for found in one.diagnostics if found.code == "DC462"}
    assert empty <= {"device_map: balanced"}  # as it is fixed, over all devices


@pytest.mark.parametrize("model", [FLUX, KANDINSKY, COG, "black-forest-labs/FLUX.2-klein-4B"])
def test_no_placement_of_whole_components_is_less_full(model: str, chosen: Chosen) -> None:
    """Every other one on as many cards, asked of the rules themselves."""
    compiled = chosen(model, "{gpu: h200-sxm, per_node: 3}", parallel="{auto: {forbid: [context, tensor, offload]}}")
    assert compiled.choice is not None
    recipe, facts = compiled.recipe, compiled.facts
    assert recipe is not None
    assert facts is not None
    names = list(facts.model.components)

    def fullest(device_map: dict[str, int | tuple[int, ...]]) -> int:
        tried = recipe.model_copy(update={"parallel": Parallel(device_map=device_map)})
        return tightest(device_loads(tried, facts, split_components(tried, facts.model))).need_bytes

    groups = candidates(recipe, facts, Bounds(Parallel(), frozenset()), 3)
    packed = {one.devices: one.parallel.device_map for (one, *_) in groups if one.kind == "device_map"}
    for count, device_map in packed.items():
        assert isinstance(device_map, dict)
        every = (dict(zip(names, at, strict=True)) for at in product(range(count), repeat=len(names)))
        assert fullest(device_map) == min(fullest(at) for at in every if len(set(at.values())) == count)
