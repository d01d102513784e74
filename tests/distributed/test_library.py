"""The library's public `enable_parallelism` as the reference: the same layout, the same latents.

And the private parts of diffusers that `runtime/library.py` holds: a test fails when one moves.
"""

from __future__ import annotations

import importlib.metadata
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tiny_models as tiny
import torch
from dcompile.runtime import context_parallel, library
from diffusers import FluxPipeline, FluxTransformer2DModel, WanTransformer3DModel
from diffusers.hooks import context_parallel as hooks
from diffusers.models import attention_dispatch
from diffusers.models._modeling_parallel import ParallelConfig

LATENTS = 1e-5  # the two ways do the same work, so only the order of sums may differ

RUNTIME = Path(context_parallel.__file__).parent
UNEVEN = {"height": 36, "width": 36}


def run(plan: dict[str, Any], root: Path, folder: Path, way: str) -> list[dict[str, Any]]:
    """What every rank holds and makes, in rank order."""
    path, out = tiny.write_plan(plan, folder), folder / way
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "localhost"]
    command += ["--nproc-per-node", str(plan["program"]["ranks"])]
    command += [str(Path(__file__).with_name("library_worker.py")), str(path), str(root), str(out), way]
    done = subprocess.run(command, timeout=240, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [torch.load(f"{out}.{rank}") for rank in range(plan["program"]["ranks"])]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tensor 2", "uneven ulysses 2"])
def test_layout_and_latents_are_those_of_enable_parallelism(name: str, root: Path, tmp_path: Path) -> None:
    kind, degree = name.split()[-2], int(name[-1])
    call = {"output_type": "latent"}
    if kind == "tensor":
        layout = tiny.tensor_layout(FluxTransformer2DModel, root / "flux" / "transformer", degree)
        components = {"transformer": {"tensor": layout}}
    else:
        uneven = name.startswith("uneven")
        components = {"transformer": {"context": tiny.context_layout(ulysses=degree, uneven=uneven)}}
        call |= {"height": 40, "width": 40} if uneven else {}  # gloo gathers equal shards only: 100 tokens on 2 ranks
    plan = tiny.plan("flux", axes={kind: degree}, components=components, call=call, rows=1)
    ours, library = (run(plan, root, tmp_path, way) for way in ("ours", "library"))
    split = 0
    for mine, theirs in zip(ours, library, strict=True):
        assert mine["layout"].keys() == theirs["layout"].keys()
        for parameter, (placements, values) in theirs["layout"].items():
            own_placements, own_values = mine["layout"][parameter]
            assert own_placements == placements, parameter
            assert torch.equal(own_values, values), parameter
            split += placements != ["whole"]
        assert (mine["latents"] - theirs["latents"]).abs().max() <= LATENTS
    assert (split > 0) is (kind == "tensor")


def test_the_private_parts_are_where_they_were() -> None:
    def parameters(function: Any) -> list[str]:
        return list(inspect.signature(function).parameters)

    assert parameters(library.apply_context_parallel) == ["module", "parallel_config", "plan"]
    assert parameters(hooks._all_gather_anything) == ["tensor", "dim", "group"]
    assert parameters(library.gather_sizes) == ["size", "group"]
    assert parameters(ParallelConfig.setup) == ["self", "rank", "world_size", "device", "mesh"]
    assert parameters(library.native_forward) == parameters(context_parallel.forward_with_log_sum_exp)
    assert hasattr(attention_dispatch, "_native_attention_forward_op")
    registry = attention_dispatch._AttentionBackendRegistry
    assert parameters(registry.set_active_backend) == ["backend"]
    assert set(registry._backends) <= set(attention_dispatch.AttentionBackendName)
    assert torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    model = tiny_transformer()
    assert library.context_plan(model)
    assert library.kept_in_float32(type(model)) == []
    assert library.kept_in_float32(WanTransformer3DModel)
    assert [library.backend_of(processor) for processor in library.processors(model)] == [None, None]
    assert not any(library.takes_part(processor) for processor in library.processors(model))
    library.check_attention_backend("native")
    with pytest.raises(ValueError, match="nativ"):
        library.check_attention_backend("nativ")
    library.use_native_attention_by_default()
    assert registry.get_active_backend()[0].value == "native"
    pipeline = FluxPipeline(None, None, None, None, None, None, model)
    assert library.execution_device(pipeline) == torch.device("cpu")


def tiny_transformer() -> FluxTransformer2DModel:
    return FluxTransformer2DModel(
        in_channels=4,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=8,
        num_attention_heads=1,
        joint_attention_dim=8,
        pooled_projection_dim=8,
        axes_dims_rope=(2, 2, 4),
    )


def test_nothing_else_in_the_runtime_is_private_to_diffusers() -> None:
    """By the names: a module of the runtime but `library.py` takes only public names from diffusers."""
    public = re.compile(r"^\s*(?:from diffusers import .*|import diffusers)$")
    for file in RUNTIME.glob("*.py"):
        if file.name != "library.py":
            imports = [line for line in file.read_text().splitlines() if re.match(r"\s*(from|import) diffusers", line)]
            assert all(public.match(line) for line in imports), file.name


@pytest.mark.parametrize("name", library.TRIED_WITH)
def test_the_installed_versions_are_those_it_was_tried_with(name: str) -> None:
    installed = importlib.metadata.version(name).partition("+")[0]
    assert installed in library.TRIED_WITH[name]
