"""One rank of the comparison with the library: `torchrun library_worker.py PLAN ROOT OUT ours|library`.

`library` is what a diffusers user writes: the whole pipeline, then the public `enable_parallelism`. On a CPU it needs a
door: a device count that is not 0, and `cpu` among the devices of tensor parallelism.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from dcompile.core.ending import end_rank
from dcompile.runtime import generate, ranks
from dcompile.runtime.load import load_pipeline
from diffusers import ContextParallelConfig, FluxPipeline, TensorParallelConfig
from diffusers.hooks import tensor_parallel
from torch.distributed.tensor import DTensor


def by_the_library(program: dict[str, Any], root: Path) -> Any:
    """The pipeline by the library's public way."""
    torch.accelerator.device_count = lambda: 1
    tensor_parallel._SUPPORTED_TP_DEVICES = (*tensor_parallel._SUPPORTED_TP_DEVICES, "cpu")
    pipeline = FluxPipeline.from_pretrained(root / program["pipeline"]["path"], dtype=torch.float32)
    pipeline.set_progress_bar_config(disable=True)
    split = program["components"]["transformer"]
    if split["tensor"]:
        config: Any = TensorParallelConfig(tp_degree=split["tensor"]["degree"])
    else:
        config = ContextParallelConfig(
            ulysses_degree=split["context"]["ulysses"], ulysses_anything=split["context"]["uneven"]
        )
    pipeline.transformer.enable_parallelism(config=config)
    return pipeline


def layout(model: torch.nn.Module) -> dict[str, Any]:
    """Where every parameter lives: placements, and the values that this rank holds."""
    found = {}
    for name, parameter in model.named_parameters():
        split = isinstance(parameter, DTensor)
        placements = [str(placement) for placement in parameter.placements] if split else ["whole"]
        found[name] = (placements, (parameter.to_local() if split else parameter).detach().clone())
    return found


def main() -> None:
    """Builds the pipeline in one of the two ways and saves rank 0's layout and latents, and every rank's layout."""
    plan = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    program, root = plan["program"], Path(sys.argv[2])
    place = ranks.join(program)
    pipeline = load_pipeline(plan, root, place) if sys.argv[4] == "ours" else by_the_library(program, root)
    row = program["run"]["rows"][0]
    (latents,) = generate.make(pipeline, [row], program["run"]["call"], "pt")
    torch.save({"layout": layout(pipeline.transformer), "latents": latents}, f"{sys.argv[3]}.{place.rank}")
    place.gather(None)
    place.leave()


if __name__ == "__main__":
    main()
    end_rank(0)
