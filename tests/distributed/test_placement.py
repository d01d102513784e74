"""What the runtime does with a placement: cuts of every kind, adapters beside a map, the port, and what load leaves."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import diffusers
import numpy as np
import pytest
import tiny_models as tiny
import torch
from dcompile.driver import compile_recipe
from dcompile.facts.generate_tails import tail_of
from dcompile.runtime import generate
from dcompile.runtime.device_map import _move, wrap_parts
from dcompile.runtime.launch import run_plan
from dcompile.runtime.load import load_pipeline
from dcompile.runtime.logical_devices import LogicalDevices
from dcompile.runtime.ranks import join
from diffusers import AutoencoderKLWan, LTXVideoTransformer3DModel, UNet2DConditionModel
from oracle.zoo.parts import randomise
from PIL import Image
from torch import nn

WAN = """version: 1
model: {{path: wan}}
devices: {{kind: cpu}}
parallel: {parallel}
run: {{prompts: [red apple], height: 32, width: 32, frames: 9, steps: 2, args: {{max_sequence_length: 8}}}}
output: {{dir: {out}}}
"""


def made(root: Path, parallel: str, out: Path) -> list[str]:
    """Digests of the files that a recipe for the tiny Wan makes."""
    file = root / "recipe.yaml"
    file.write_text(WAN.format(parallel=parallel, out=out), encoding="utf-8")
    compiled = compile_recipe(file)
    assert compiled.bundle is not None, compiled.diagnostics
    plan = root / "plan.json"
    plan.write_text(compiled.bundle["plan.json"], encoding="utf-8")
    assert run_plan(plan, root, progress="none") == 0
    return [entry["sha256"] for entry in json.loads((out / "manifest.json").read_text(encoding="utf-8"))]


@pytest.mark.slow
def test_a_model_with_parameters_of_its_own_is_cut(tmp_path: Path) -> None:
    """Wan's `scale_shift_table` belongs to no block: it lies where the model's first device is, whatever its number."""
    tiny.save_wan(tmp_path / "wan")
    alone = made(tmp_path, "{}", tmp_path / "one")
    assert made(tmp_path, "{device_map: {transformer: [1, 0], text_encoder: 1}}", tmp_path / "cut") == alone


def cut_in_half(module: nn.Module, stacks: list[str], tail: tuple[str, ...] = ()) -> None:
    """Puts the second half of a module's blocks, and its tail, on a second device, as the runtime does with a plan."""
    first, second = torch.device("cpu", 0), torch.device("cpu", 1)
    blocks = [f"{stack}.{i}" for stack in stacks for i in range(len(module.get_submodule(stack)))]
    places = {block: first if number < len(blocks) // 2 else second for number, block in enumerate(blocks)}
    places |= {"": first, **dict.fromkeys(tail, second)}
    for part in sorted(places, key=len):
        _move(module.get_submodule(part), places[part])
    wrap_parts(module, places, first)


def test_a_denoiser_with_skips_is_cut() -> None:
    """A UNet's up blocks take what its down blocks made, in a tuple: it moves along."""
    net = UNet2DConditionModel(
        sample_size=8,
        block_out_channels=(32, 64),
        layers_per_block=1,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=16,
        attention_head_dim=8,
        norm_num_groups=8,
    ).eval()
    randomise(net, 0)
    sample, text, step = torch.randn(1, 4, 8, 8), torch.randn(1, 6, 16), torch.tensor([1])
    with torch.no_grad():
        alone = net(sample, step, text, return_dict=False)[0]
        with LogicalDevices():
            cut_in_half(net, ["down_blocks", "up_blocks", "mid_block.resnets"], ("conv_norm_out", "conv_out"))
            out = net(sample.to("cpu:0"), step.to("cpu:0"), text.to("cpu:0"), return_dict=False)[0]
            assert out.device == torch.device("cpu", 0)
            out = out.cpu()
    assert torch.equal(out, alone)


def test_the_tail_of_a_class_is_only_called() -> None:
    """What comes after the blocks may lie on another device: a call moves its tensors, a weight by itself stays."""
    assert tail_of(diffusers.FluxTransformer2DModel) == ["norm_out", "proj_out"]
    assert tail_of(diffusers.WanTransformer3DModel) == ["norm_out", "proj_out"]  # not its `scale_shift_table`
    assert tail_of(diffusers.PixArtTransformer2DModel) == ["norm_out", "proj_out", "adaln_single", "caption_projection"]
    assert "mid_block" not in tail_of(diffusers.UNet2DConditionModel)

    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Linear(2, 2)
            self.blocks = nn.ModuleList([nn.Linear(2, 2)])
            self.out, self.other = nn.Linear(2, 2), nn.Linear(2, 2)
            self.scale = nn.Linear(2, 2)
            self.out = nn.Linear(2, 2)
            self.unused = nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for block in self.blocks:
                x = block(self.embed(x))
            return self.out(x) * self.scale.weight.sum() + self.scale(x)

    assert tail_of(Odd) == ["out"]


def test_an_autoencoder_with_a_cache_cannot_be_cut() -> None:
    """DC461: Wan's decoder hands its blocks a list in which each leaves what the next frame needs; copies lose it."""
    vae = AutoencoderKLWan(
        base_dim=3, z_dim=16, dim_mult=[1, 1, 1, 1], num_res_blocks=1, temperal_downsample=[False, True, True]
    ).eval()
    randomise(vae, 0)
    latents = torch.randn(1, 16, 3, 4, 4)
    with torch.no_grad(), LogicalDevices():
        cut_in_half(vae, ["decoder.mid_block.resnets", "decoder.up_blocks"])
        with pytest.raises(RuntimeError, match="must match"):
            vae.decode(latents.to("cpu:0"))


def test_the_library_does_not_cut_a_class_without_a_list() -> None:
    """DC461: what diffusers says of an LTX transformer with a device map; our own cut of it would be right."""
    model = LTXVideoTransformer3DModel(
        in_channels=4,
        out_channels=4,
        num_attention_heads=2,
        attention_head_dim=8,
        cross_attention_dim=16,
        num_layers=1,
        caption_channels=8,
    )
    with pytest.raises(ValueError, match="LTXVideoTransformer3DModel does not support `device_map='auto'`"):
        model._get_no_split_modules("auto")


@pytest.mark.slow
def test_an_adapter_beside_a_map(root: Path, tmp_path: Path) -> None:
    """Adapters are loaded before anything is placed, and follow their layers."""
    lora = tiny.save_lora(tmp_path / "lora", root / "flux")
    adapter = {"path": str(lora), "weight": 0.8, "component": "transformer", "fuse": False}
    cut = {"transformer": {"blocks": {"": 0, "transformer_blocks.1": 1, "single_transformer_blocks.0": 1}}}
    pictures = []
    for name, placement in (("one", {}), ("two", {"transformer": {"device": 1}, "vae": {"device": 1}}), ("cut", cut)):
        plan = tiny.plan(
            "flux",
            rows=1,
            devices_per_rank=1 if name == "one" else 2,
            components=placement,
            pipeline={"adapters": [adapter]},
            out=tmp_path / name,
        )
        assert run_plan(tiny.write_plan(plan, tmp_path / name), root, progress="none") == 0
        pictures.append(np.asarray(Image.open(tmp_path / name / "00000.png")).astype(int))
    assert np.abs(pictures[1] - pictures[0]).max() <= 1
    assert np.abs(pictures[2] - pictures[0]).max() <= 1


@pytest.mark.slow
def test_ranks_of_one_node_meet_on_a_free_port(root: Path, tmp_path: Path) -> None:
    """Whoever holds the port that torch takes by default, and whatever the shell says."""
    with socket.create_server(("localhost", 29500)):
        plan = tiny.plan("flux", axes={"data": 2}, out=tmp_path / "out")
        assert run_plan(tiny.write_plan(plan, tmp_path), root, progress="none") == 0


def test_pictures_are_made_without_gradients() -> None:
    """Tiles of an autoencoder that tracks gradients take more memory than none; inference mode slows DTensors down."""
    seen: list[tuple[bool, bool]] = []

    class Pipeline:
        def __call__(self, prompt: str, generator: Any = None, output_type: str = "pil") -> Any:
            seen.append((torch.is_grad_enabled(), torch.is_inference_mode_enabled()))
            return SimpleNamespace(images=[object()])

    row = {"prompt": "a", "negative_prompt": None, "seed": 1, "args": {}}
    generate.make(Pipeline(), [row], {}, "png")
    assert seen == [(False, False)]


class Watched(LogicalDevices):
    """Logical devices that keep what went from one to another."""

    def __init__(self) -> None:
        super().__init__()
        self.moved: list[torch.Tensor] = []

    def _move(self, function: Any, args: Any, kwargs: Any) -> Any:
        before = self.where(args[0])
        made = super()._move(function, args, kwargs)
        if torch.device("cpu") not in (before, self.where(made)) and before != self.where(made):
            self.moved.append(made)
        return made


@pytest.mark.parametrize(
    ("devices", "calls"),
    [([0, 1], 1), ([1, 0], 1), ([0, 1, 2], 2)],
)
def test_a_step_hands_on_what_the_plan_says(devices: list[int], calls: int, root: Path, compiled: Any) -> None:
    """The sequence goes on where the next block lies elsewhere and back at the end: no more, to the byte."""
    text = f"""
        version: 1
        model: {{path: {root / "flux"}, dtype: float32}}
        devices: {{kind: cpu}}
        parallel: {{device_map: {{transformer: {devices}}}}}
        run: {{prompts: [red apple], height: 16, width: 16, steps: 1, seed: 1, args: {{max_sequence_length: 8}}}}
    """
    done = compiled(text)
    assert done.plan_json is not None, done.diagnostics
    traffic = done.plan_json["traffic"]["transfer"]
    plan = done.plan_json
    with Watched() as mode:
        pipeline = load_pipeline(plan, root, join(plan["program"]))
        # From the embedder on: what the transformer itself is given has arrived then.
        pipeline.transformer.x_embedder.register_forward_hook(lambda *_: mode.moved.clear())
        pipeline.transformer.register_forward_hook(lambda *_: seen.extend(mode.moved))
        seen: list[torch.Tensor] = []
        run = plan["program"]["run"]
        generate.make(pipeline, run["rows"], run["call"], "png")
        width = pipeline.transformer.inner_dim
    sequences = [one for one in seen if one.dim() == 3 and one.shape[-1] == width]
    assert sum(one.numel() * one.element_size() for one in sequences) == traffic["bytes"]
    assert traffic["calls"] == calls
    # The time and two rotary tables go to each device once, however many blocks are there.
    assert len([one for one in seen if one.dim() < 3]) <= 3 * (len(devices) - 1) + 4
