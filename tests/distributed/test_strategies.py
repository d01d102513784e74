"""Strategies as torchrun starts them, with gloo, compared with one plain diffusers process.

The oracle asks every family about every strategy in ranks that it forks; here the ranks are started as users start
them, once for each kind of split.
"""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models as tiny
import torch
from dcompile.runtime.launch import run_plan
from diffusers import FluxPipeline, FluxTransformer2DModel
from PIL import Image

pytestmark = pytest.mark.slow

LATENTS = 1e-4
TIME_LIMIT = 240
UNEVEN = {"height": 36, "width": 36}  # 81 image tokens
ROWS = 2


def tensor(root: Path, degree: int) -> dict[str, Any]:
    layout = tiny.tensor_layout(FluxTransformer2DModel, root / "flux" / "transformer", degree)
    return {"transformer": {"tensor": layout}}


def context(ring: int = 1, ulysses: int = 1, uneven: bool = False) -> dict[str, Any]:
    return {"transformer": {"context": tiny.context_layout(ring, ulysses, uneven)}}


def plain(root: Path, call: dict[str, Any] | None = None, output_type: str = "pil") -> list[Any]:
    """What a script without dcompile makes."""
    pipeline = FluxPipeline.from_pretrained(root / "flux", dtype=torch.float32)
    pipeline.set_progress_bar_config(disable=True)
    settings = tiny.plan("flux", rows=ROWS, call=call)["program"]["run"]
    made = []
    for row in settings["rows"]:
        generator = torch.Generator("cpu").manual_seed(row["seed"])
        result = pipeline(row["prompt"], generator=generator, output_type=output_type, **settings["call"])
        made.append(result.images[0])
    return made


@pytest.fixture(scope="module")
def pictures(root: Path) -> dict[int, list[Any]]:
    return {32: plain(root), 36: plain(root, UNEVEN)}


@pytest.fixture(scope="module")
def latents(root: Path) -> dict[int, torch.Tensor]:
    return {size: torch.stack(plain(root, call, "latent")) for size, call in ((32, {}), (36, UNEVEN))}


def levels(folder: Path, expected: list[Any]) -> int:
    """The largest difference in 8-bit levels between a run's pictures and the expected ones."""
    files = [folder / entry["file"] for entry in json.loads((folder / "manifest.json").read_text())]
    assert len(files) == len(expected)
    pairs = zip(files, expected, strict=True)
    return max(int(np.abs(np.asarray(Image.open(a)).astype(int) - np.asarray(b).astype(int)).max()) for a, b in pairs)


def run_latents(plan: dict[str, Any], root: Path, folder: Path) -> torch.Tensor:
    path, out = tiny.write_plan(plan, folder), folder / "latents.pt"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "localhost"]
    command += ["--nproc-per-node", str(plan["program"]["ranks"])]
    command += [str(Path(__file__).with_name("latents_worker.py")), str(path), str(root), str(out)]
    subprocess.run(command, check=True, timeout=TIME_LIMIT, capture_output=True)
    return torch.load(out)


SPLITS = {
    "tensor": ({"tensor": 2}, lambda root: tensor(root, 2), {}),
    "unified": ({"ring": 2, "ulysses": 2}, lambda root: context(2, 2), {}),
    "uneven-ring": ({"ring": 2}, lambda root: context(ring=2, uneven=True), UNEVEN),
}


@pytest.mark.parametrize("name", SPLITS)
def test_latents_are_those_of_one_process(name: str, root: Path, tmp_path: Path, latents: Any) -> None:
    axes, components, call = SPLITS[name]
    plan = tiny.plan("flux", axes=axes, components=components(root), call={**call, "output_type": "latent"})
    difference = (run_latents(plan, root, tmp_path) - latents[call.get("height", 32)]).abs().max().item()
    print(f"{name}: {difference:.1e}")
    assert difference <= LATENTS


def test_the_comparison_sees_a_misplaced_layout(root: Path, tmp_path: Path, latents: Any) -> None:
    components = copy.deepcopy(tensor(root, 2))
    parameters = components["transformer"]["tensor"]["parameters"]
    for leaf in ("weight", "bias"):
        name = f"transformer_blocks.0.attn.to_q.{leaf}"
        parameters[name]["parts"] = [32, 32]  # heads 0 and 2 where the keys are 0 and 1
    plan = tiny.plan("flux", axes={"tensor": 2}, components=components, call={"output_type": "latent"})
    assert (run_latents(plan, root, tmp_path) - latents[32]).abs().max().item() > 100 * LATENTS


PLACEMENTS = {
    "denoiser": {"transformer": {"device": 1}},
    "blocks": {"transformer": {"blocks": {"": 0, "transformer_blocks.1": 1, "single_transformer_blocks.0": 1}}},
}


@pytest.mark.parametrize("name", PLACEMENTS)
def test_device_map(name: str, root: Path, tmp_path: Path, pictures: Any) -> None:
    out = tmp_path / "out"
    plan = tiny.plan("flux", devices_per_rank=2, components=PLACEMENTS[name], out=out)
    assert run_plan(tiny.write_plan(plan, tmp_path), root, progress="plain") == 0
    assert levels(out, pictures[32]) <= 1


RUNS = {
    "data": ({"data": 2}, lambda root: {}),
    "data-tensor": ({"data": 2, "tensor": 2}, lambda root: tensor(root, 2)),
}


@pytest.mark.parametrize("name", RUNS)
def test_pictures_are_those_of_one_process(name: str, root: Path, tmp_path: Path, pictures: Any) -> None:
    axes, components = RUNS[name]
    out = tmp_path / "out"
    plan = tiny.plan("flux", axes=axes, components=components(root), out=out)
    assert run_plan(tiny.write_plan(plan, tmp_path), root, progress="plain") == 0
    assert levels(out, pictures[32]) <= 1
    assert not list(out.glob(".*"))


def test_a_missing_seed_is_seen(root: Path, tmp_path: Path, pictures: Any) -> None:
    out = tmp_path / "out"
    plan = tiny.plan("flux", out=out)
    for row in plan["program"]["run"]["rows"]:
        row["seed"] += 1
    assert run_plan(tiny.write_plan(plan, tmp_path), root, progress="none") == 0
    assert levels(out, pictures[32]) > 1
