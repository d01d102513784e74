"""Measured values in a recipe: they come before the tables, and the plan says that they do."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from dcompile.cli.main import main
from dcompile.cli.render import locate
from dcompile.driver import Compiled, compile_recipe
from dcompile.estimate.links import Network, collective_seconds
from dcompile.facts.registry import HARDWARE, known_hardware, load_hardware, read_json
from dcompile.machine import devices as looking
from dcompile.machine.devices import Device, Machine, table_name
from dcompile.machine.hardware_file import Found, document_of, file_text, section_of
from dcompile.machine.topology import Topology
from dcompile.recipe.model import Devices

RECIPE = """
version: 1
model: {{id: black-forest-labs/FLUX.1-dev, dtype: bfloat16}}
devices: {devices}
parallel: {parallel}
run: {{prompts: [a fox], steps: 28, height: 1024, width: 1024, seed: 1}}
"""
SPEED = "{matmul_flops_per_second: 2.0e+14, attention_flops_per_second: 1.0e+14, memory_bytes_per_second: 1.0e+12}"
UNKNOWN = "{kind: cuda, memory: 80GiB, per_node: 4, measured: {dtype: bfloat16, speeds: [" + SPEED + "]%s}}"


def compiled(folder: Path, devices: str, parallel: str = "{}", *overrides: str) -> Compiled:
    file = folder / "job.yaml"
    file.write_text(RECIPE.format(devices=devices, parallel=parallel), encoding="utf-8")
    found = compile_recipe(file, overrides)
    assert found.is_valid, found.diagnostics
    return found


def estimate(folder: Path, devices: str, parallel: str = "{}", *overrides: str) -> dict[str, Any]:
    plan = compiled(folder, devices, parallel, *overrides).plan_json
    assert plan is not None
    return plan["estimate"]


def decisions(found: Compiled) -> dict[str, tuple[str, str]]:
    assert found.plan_json is not None
    return {one["what"]: (one["chosen"], one["because"]) for one in found.plan_json["decisions"]}


def test_an_unknown_card_is_estimated_by_what_was_measured(tmp_path: Path) -> None:
    once = estimate(tmp_path, UNKNOWN % "")
    twice = estimate(tmp_path, (UNKNOWN % "").replace("e+14", "e+13"))
    assert 7 < twice["step_seconds"] / once["step_seconds"] < 10  # the host's part stays
    said = decisions(compiled(tmp_path, UNKNOWN % ""))
    assert said["estimate.speeds"] == (
        "as measured",
        "`devices.measured` has matrix products 200 TFLOP/s, attention 100 TFLOP/s, memory 1 TB/s in bfloat16",
    )


def test_measured_speeds_come_before_the_table(tmp_path: Path) -> None:
    table = estimate(tmp_path, "{gpu: l20}")
    half = "{gpu: l20, measured: {dtype: bfloat16, speeds: [{matmul_flops_per_second: 5.0e+13}]}}"
    assert estimate(tmp_path, half)["step_seconds"] > 1.5 * table["step_seconds"]
    said = decisions(compiled(tmp_path, half))["estimate.speeds"][1]
    assert said.endswith("in bfloat16; attention and memory by the table")


def test_what_was_measured_in_another_dtype_is_not_used(tmp_path: Path) -> None:
    other = "{gpu: l20, measured: {dtype: float32, speeds: [{matmul_flops_per_second: 1.0e+10}]}}"
    found = compiled(tmp_path, other)
    assert found.plan_json is not None
    assert found.plan_json["estimate"] == estimate(tmp_path, "{gpu: l20}")
    because = "`devices.measured` is in float32, and `transformer` is in bfloat16"
    assert decisions(found)["estimate.speeds"] == ("by the table", because)
    # The two of 16 bits are as fast on an accelerator.
    half = other.replace("float32", "float16")
    assert decisions(compiled(tmp_path, half))["estimate.speeds"][0] == "as measured"


def test_float32_has_an_estimate_where_it_was_measured(tmp_path: Path) -> None:
    wide = "{gpu: h200-sxm, measured: {dtype: float32, speeds: [" + SPEED + "]}}"
    assert estimate(tmp_path, wide, "{}", "model.dtype=float32")["step_seconds"] > 0
    bare = compiled(tmp_path, "{kind: cuda, memory: 80GiB}", "{}", "model.dtype=float32")
    assert bare.plan_json is not None
    assert "estimate" not in bare.plan_json


def test_parts_alone_tell_no_time_of_an_unknown_card(tmp_path: Path) -> None:
    some = "{kind: cuda, memory: 80GiB, measured: {dtype: bfloat16, speeds: [{matmul_flops_per_second: 2.0e+14}]}}"
    found = compiled(tmp_path, some)
    assert found.plan_json is not None
    assert "estimate" not in found.plan_json
    assert decisions(found)["estimate.speeds"][1].endswith(
        "; but attention and memory were not, so that no time can be told"
    )


POINTS = ", collectives: [" + ", ".join(
    f"{{operation: {name}, ranks: {ranks}, bytes: {size}, seconds: {seconds}}}"
    for name in ("all_reduce", "all_to_all", "all_gather")
    for ranks in (2, 4)
    for size, seconds in ((2**16, 0.0001 * ranks), (2**24, 0.002 * ranks))
) + "]"  # fmt: skip


def test_measured_collectives_tell_what_a_split_costs(tmp_path: Path) -> None:
    # A card of unknown link: without measurements its splits have no estimate.
    assert compiled(tmp_path, UNKNOWN % "", "{tensor: 4}").plan_json.get("estimate") is None  # type: ignore[union-attr]
    found = compiled(tmp_path, UNKNOWN % POINTS, "{tensor: 4}")
    assert found.plan is not None
    moved = found.plan.traffic["all_reduce"]
    each = moved["bytes"] / moved["calls"]
    network = Network("host", None, found.plan.checked.subject.facts.devices.curves)
    expected = moved["calls"] * collective_seconds("all_reduce", 4, each, network)
    assert found.plan.estimate["communication_seconds"] == pytest.approx(expected)
    assert decisions(found)["estimate.collectives"][1].startswith(
        "`devices.measured` has all_gather of 2 and 4 ranks, "
    )


def test_curves_go_through_their_points_and_scale_beyond_them() -> None:
    curves = {"all_reduce": {2: ((1024, 1e-4), (4096, 9e-5), (2**20, 1e-3)), 4: ((1024, 2e-4),)}}
    network = Network("nvlink4", None, curves)
    at = [collective_seconds("all_reduce", 2, size, network) for size in (1, 1024, 4096, 2**20, 2**21)]
    assert at == pytest.approx([9e-5, 9e-5, 9e-5, 1e-3, 2e-3])  # the first was disturbed: a smaller one takes no longer
    # Three ranks: the curve of four by its bus bandwidth; eight: that of four too, the most that was measured.
    three, eight = (collective_seconds("all_reduce", ranks, 1024, network) for ranks in (3, 8))
    assert three == pytest.approx(2e-4 * (2 / 3) / (3 / 4))
    assert eight == pytest.approx(2e-4 * (7 / 8) / (3 / 4))
    # What was not measured is in the table.
    plain = collective_seconds("all_gather", 2, 2**20, "nvlink4")
    assert collective_seconds("all_gather", 2, 2**20, network) == plain


def test_auto_chooses_by_what_was_measured(tmp_path: Path) -> None:
    def chosen(factor: float) -> str:
        points = ", collectives: [" + ", ".join(
            f"{{operation: {name}, ranks: 4, bytes: {size}, seconds: {factor * seconds:.6f}}}"
            for name in ("all_reduce", "all_to_all", "all_gather")
            for size, seconds in ((2**16, 1e-5), (2**24, 3e-4))
        ) + "]"  # fmt: skip
        found = compiled(tmp_path, UNKNOWN % points, "auto")
        assert found.choice is not None
        return found.choice.winner.candidate.text

    assert chosen(1) == "context: {ulysses: 4}"
    assert chosen(1000) == "one device"


def test_a_mixed_box_has_a_speed_for_each_device(tmp_path: Path) -> None:
    slow = SPEED.replace("e+14", "e+13")
    both = "{gpus: [h100-sxm-80gb, l20], link: pcie4, reserve: 1GiB, measured: {dtype: bfloat16, speeds: [%s, %s]}}"
    first, second = (
        estimate(tmp_path, both % pair, "{device_map: {transformer: 0, text_encoder_2: 1}}")
        for pair in ((SPEED, slow), (slow, SPEED))
    )
    assert second["step_seconds"] > 5 * first["step_seconds"]


# The file.

H100 = Device("NVIDIA H100 80GB HBM3", 79 * 2**30, 9)
FOUND = Found(
    machine=Machine("cuda", (H100, H100), 512 * 2**30),
    versions={"dcompile": "0.1.0", "torch": "2.13.0"},
    link="nvlink4",
    topology=Topology((("X", "NV18"), ("NV18", "X"))),
    dtype="bfloat16",
    speeds=tuple(
        {"matmul_flops_per_second": rate, "attention_flops_per_second": 3.5123e14, "memory_bytes_per_second": 2.9e12}
        for rate in (7.1e14, 7.2e14)
    ),
    collectives=({"operation": "all_reduce", "ranks": 2, "bytes": 65536, "seconds": 1.234e-05},),
    missing=("What is missing.",),
)


def test_the_file_is_a_devices_section_that_recipes_can_name(tmp_path: Path) -> None:
    text = file_text(FOUND, "box.yaml")
    assert yaml.safe_load(text) == section_of(FOUND) == document_of(FOUND)["devices"]
    assert "# GPU0: X NV18" in text
    assert "# What is missing." in text
    section = Devices.model_validate(yaml.safe_load(text), strict=False)
    assert (section.gpu, section.per_node, section.memory, section.link) == ("h100-sxm-80gb", 2, "80896MiB", "nvlink4")
    (tmp_path / "box.yaml").write_text(text)
    found = compiled(tmp_path, "box.yaml", "{tensor: 2}")
    assert decisions(found)["estimate.speeds"][0] == "as measured"
    assert found.diagnostics == ()


def test_cards_of_one_name_have_one_speed_the_slowest() -> None:
    (speed,) = section_of(FOUND)["measured"]["speeds"]
    assert speed["matmul_flops_per_second"] == 710_000_000_000_000
    on_hosts = tuple({"matmul_flops_per_second": 1e9, "host_seconds_per_block": host} for host in (0.001, 0.002))
    (speed,) = section_of(replace(FOUND, speeds=on_hosts))["measured"]["speeds"]
    assert speed == {"matmul_flops_per_second": 1_000_000_000, "host_seconds_per_block": 0.002}


def test_a_card_that_the_table_does_not_have_goes_by_its_kind(tmp_path: Path) -> None:
    other = Device("NVIDIA GeForce RTX 9999", 24 * 2**30, 12)
    section = section_of(replace(FOUND, machine=Machine("cuda", (other, H100), None), link=None))
    assert section["kind"] == "cuda"
    assert section["memory"] == ["24576MiB", "80896MiB"]
    assert "gpu" not in section
    assert "link" not in section
    assert "host_memory" not in section
    mixed = section_of(replace(FOUND, machine=Machine("cuda", (H100, Device("NVIDIA L20", 44 * 2**30)), None)))
    assert mixed["gpus"] == ["h100-sxm-80gb", "l20"]
    assert "per_node" not in mixed
    assert mixed["memory"] == ["80896MiB", "45056MiB"]
    assert len(mixed["measured"]["speeds"]) == 2


@pytest.mark.parametrize("names", [("NVIDIA H100 80GB HBM3", "NVIDIA L20"), ("A card", "Another card"), ("A card",)])
def test_every_machine_s_file_is_a_valid_section(tmp_path: Path, names: tuple[str, ...]) -> None:
    devices = tuple(Device(name, (40 + index) * 2**30, 8) for index, name in enumerate(names))
    found = replace(FOUND, machine=Machine("cuda", devices, 2**38), speeds=FOUND.speeds[: len(names)], link="pcie4")
    (tmp_path / "box.yaml").write_text(file_text(found, "box.yaml"))
    made = compiled(tmp_path, "box.yaml")
    assert made.plan is not None
    facts = made.plan.checked.subject.facts.devices
    assert [facts.memory_bytes(index) for index in range(len(names))] == [one.memory_bytes for one in devices]
    assert facts.per_node == len(names)
    assert decisions(made)["estimate.speeds"][0] == "as measured"


# Looking at a machine, with the answers of a driver.


class Torch:
    """As much of `torch.cuda` as is asked: three cards, of which a process sees the second and the third."""

    cards = (("GPU-a", "NVIDIA L4", 22), ("GPU-b", "NVIDIA L20", 44), ("GPU-c", "NVIDIA L20", 44))
    seen = (2, 1)

    @staticmethod
    def is_available() -> bool:
        return True

    @classmethod
    def device_count(cls) -> int:
        return len(cls.seen)

    @classmethod
    def get_device_properties(cls, index: int) -> SimpleNamespace:
        uuid, name, gib = cls.cards[cls.seen[index]]
        return SimpleNamespace(name=name, total_memory=gib * 2**30, major=8, uuid=uuid.removeprefix("GPU-"))

    @staticmethod
    def can_device_access_peer(_: int, __: int) -> bool:
        return False


TOPO = """\
\tGPU0\tGPU1\tGPU2\tCPU Affinity
GPU0\t X \tPHB\tSYS\t0-15
GPU1\tPHB\t X \tPIX\t0-15
GPU2\tSYS\tPIX\t X \t16-31
"""


def test_the_cards_that_a_process_sees_are_described(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch, "cuda", Torch)
    answers = {"topo": TOPO, "--query-gpu=uuid": "GPU-a\nGPU-b\nGPU-c\n", "--query-gpu=pcie.link.gen.max": "4\n4\n4\n"}
    monkeypatch.setattr(looking, "_ask", lambda *arguments: answers[arguments[0]])
    machine = looking.look()
    assert [device.name for device in machine.devices] == ["NVIDIA L20", "NVIDIA L20"]
    assert machine.smallest_bytes == 44 * 2**30
    link, topology = looking.link_of(machine)
    assert link == "pcie4"
    assert topology == Topology(
        (("X", "PIX"), ("PIX", "X"))
    )  # of these two: the third card is far from the first alone
    monkeypatch.setattr(looking, "_ask", lambda *_: "")
    assert looking.link_of(machine) == (None, None)
    assert looking.look("cpu").kind == "cpu"


def test_a_tool_that_is_not_there_answers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert looking._ask("topo", "-m") == ""
    assert looking.processor_name()
    assert (looking.host_memory_bytes() or 1) > 0


def test_names_of_drivers_lead_to_the_table() -> None:
    named = read_json(HARDWARE.parent / "names.json")["names"]
    assert set(named.values()) == set(known_hardware())
    for name, device in named.items():
        assert table_name(Device(name, load_hardware(device).memory_bytes)) == device
    assert table_name(Device("NVIDIA H20", 141 * 2**30)) is None  # one with more memory is another card


def test_a_machine_without_anything_measured_is_still_described() -> None:
    bare = section_of(replace(FOUND, speeds=(), collectives=()))
    assert "measured" not in bare
    assert bare["per_node"] == 2


# The command line.


def test_devices_swaps_the_machine_and_set_goes_over_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "box.yaml").write_text("gpu: l20\nper_node: 2\n")
    (tmp_path / "job.yaml").write_text(RECIPE.format(devices="{gpu: h100-sxm-80gb}", parallel="{}"))
    monkeypatch.chdir(tmp_path)
    for file in ("box.yaml", str(tmp_path / "box.yaml")):
        assert main(["config", "job.yaml", "--devices", file, "--set", "devices.per_node=3"]) == 0
        section = yaml.safe_load(capsys.readouterr().out)["devices"]
        assert (section["gpu"], section["per_node"]) == ("l20", 3)
    assert main(["check", "job.yaml", "--devices", "absent.yaml", "--format", "json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["code"], found["file"]) == ("DC125", "--set")


def test_a_value_over_a_named_machine_is_a_value_of_it(tmp_path: Path) -> None:
    (tmp_path / "box.yaml").write_text("gpu: l20\nper_node: 2\n")
    found = compile_recipe(
        _written(tmp_path, "box.yaml"), ["devices.per_node=4", "devices.link=pcie4-peer", "devices={gpu: l4}"]
    )
    assert found.recipe is not None
    assert isinstance(found.recipe.devices, Devices)
    assert found.recipe.devices.gpu == "l4"  # the last one counts, whole
    assert found.recipe.devices.per_node is None
    wrong = compile_recipe(_written(tmp_path, "box.yaml"), ["devices.per_nod=4"])
    assert [
        (one.file, one.diagnostic.code) for one in locate(wrong.diagnostics, wrong.document, "job.yaml", False)
    ] == [("--set", "DC201")]


def _written(folder: Path, devices: str) -> Path:
    file = folder / "job.yaml"
    file.write_text(RECIPE.format(devices=devices, parallel="{}"), encoding="utf-8")
    return file


@pytest.mark.parametrize(
    "arguments", [["--output", "there.yaml"], ["--ranks", "0"], ["--seconds", "-1"], ["--kind", "xpu"]]
)
def test_a_probe_that_cannot_be_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    (tmp_path / "there.yaml").write_text("gpu: l4\n")
    monkeypatch.chdir(tmp_path)
    assert main(["probe", *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith("dcompile: ")
    assert shown.err.count("\n") == 1
    assert (tmp_path / "there.yaml").read_text() == "gpu: l4\n"
