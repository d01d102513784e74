"""LoRA, schedulers, guidance, batches and video on ranks of torchrun; the oracle has every combination."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tiny_models as tiny
import torch
from dcompile.runtime.launch import run_plan
from diffusers import FlowMatchEulerDiscreteScheduler, FluxPipeline, FluxTransformer2DModel, WanPipeline

pytestmark = pytest.mark.slow

LATENTS = 1e-4
ROWS = 2


def settings_for(root: Path, split: str) -> dict[str, Any]:
    """The plan's axes and components of a way to split the tiny Flux."""
    if split == "tensor":
        layout = tiny.tensor_layout(FluxTransformer2DModel, root / "flux" / "transformer", 2)
        return {"axes": {"tensor": 2}, "components": {"transformer": {"tensor": layout}}}
    if split == "ulysses":
        return {"axes": {"ulysses": 2}, "components": {"transformer": {"context": tiny.context_layout(ulysses=2)}}}
    return {}


def plain(pipeline: Any, plan: dict[str, Any]) -> torch.Tensor:
    """What a script without dcompile makes of the plan's rows."""
    pipeline.set_progress_bar_config(disable=True)
    made = []
    for row in plan["program"]["run"]["rows"]:
        torch.manual_seed(row["seed"])
        extra = {} if row["negative_prompt"] is None else {"negative_prompt": row["negative_prompt"]}
        generator = torch.Generator("cpu").manual_seed(row["seed"])
        result = pipeline(prompt=row["prompt"], generator=generator, **extra, **plan["program"]["run"]["call"])
        made.append((result.frames if hasattr(result, "frames") else result.images)[0])
    return torch.stack(made)


def run_latents(plan: dict[str, Any], root: Path, folder: Path) -> torch.Tensor:
    path, out = tiny.write_plan(plan, folder), folder / "latents.pt"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "localhost"]
    command += ["--nproc-per-node", str(plan["program"]["ranks"])]
    command += [str(Path(__file__).with_name("latents_worker.py")), str(path), str(root), str(out)]
    done = subprocess.run(command, timeout=240, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return torch.load(out)


def flux(root: Path) -> Any:
    return FluxPipeline.from_pretrained(root / "flux", dtype=torch.float32)


@pytest.mark.parametrize("split", ["tensor"])
def test_lora(split: str, root: Path, tmp_path: Path) -> None:
    lora = tiny.save_lora(tmp_path / "lora", root / "flux")
    adapter = {"path": str(lora), "weight": 0.8, "component": "transformer", "fuse": split == "tensor"}
    call = {"output_type": "latent"}
    plan = tiny.plan("flux", call=call, pipeline={"adapters": [adapter]}, **settings_for(root, split))
    pipeline = flux(root)
    without = plain(pipeline, plan)
    pipeline.load_lora_weights(lora, adapter_name="one")
    pipeline.set_adapters(["one"], [0.8])
    expected = plain(pipeline, plan)
    assert (expected - without).abs().max() > 100 * LATENTS
    assert (run_latents(plan, root, tmp_path) - expected).abs().max() <= LATENTS


@pytest.mark.parametrize("split", ["ulysses"])
def test_a_stochastic_scheduler_and_two_branches(split: str, root: Path, tmp_path: Path) -> None:
    scheduler = {"class": "FlowMatchEulerDiscreteScheduler", "stochastic_sampling": True}
    call = {"output_type": "latent", "true_cfg_scale": 3.0}
    plan = tiny.plan("flux", call=call, pipeline={"scheduler": scheduler}, **settings_for(root, split))
    for row in plan["program"]["run"]["rows"]:
        row["negative_prompt"] = "green tree"
    pipeline = flux(root)
    pipeline.scheduler = FlowMatchEulerDiscreteScheduler.from_config(
        pipeline.scheduler.config, stochastic_sampling=True
    )
    assert (run_latents(plan, root, tmp_path) - plain(pipeline, plan)).abs().max() <= LATENTS


@pytest.mark.parametrize("split", ["ulysses"])
def test_video(split: str, tmp_path: Path) -> None:
    tiny.save_wan(tmp_path / "wan")
    options = settings_for(tmp_path, split)
    call = {"num_frames": 9, "num_inference_steps": 2, "guidance_scale": 1.0, "output_type": "latent"}
    plan = tiny.plan(
        "wan", rows=1, call=call, classes=tiny.WAN_COMPONENTS, pipeline={"class": "WanPipeline"}, **options
    )
    expected = plain(WanPipeline.from_pretrained(tmp_path / "wan", dtype=torch.float32), plan)
    assert (run_latents(plan, tmp_path, tmp_path) - expected).abs().max() <= LATENTS
    out = tmp_path / "out"
    plan["program"]["run"]["call"]["output_type"] = "np"
    plan["program"]["output"] |= {"dir": str(out), "format": "mp4", "fps": 8}
    assert run_plan(tiny.write_plan(plan, tmp_path), tmp_path, progress="none") == 0
    (entry,) = json.loads((out / "manifest.json").read_text())
    import imageio_ffmpeg

    reader = imageio_ffmpeg.read_frames(str(out / entry["file"]))
    assert next(reader)["size"] == (32, 32)
    assert len(list(reader)) == 9
    assert entry["size"] == [32, 32]
