"""One rank of a latents test: `torchrun latents_worker.py PLAN ROOT OUT` saves what rank 0 made."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path

import torch
from dcompile.core.ending import end_rank
from dcompile.runtime import generate, ranks
from dcompile.runtime.load import load_pipeline
from dcompile.runtime.logical_devices import LogicalDevices


def main() -> None:
    """Loads the plan's pipeline in this process group and makes the plan's first row."""
    plan = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    place = ranks.join(plan["program"])
    with LogicalDevices() if place.has_logical_devices else nullcontext():
        pipeline = load_pipeline(plan, Path(sys.argv[2]), place)
        run = plan["program"]["run"]
        made = [generate.make(pipeline, [row], run["call"], "pt")[0].cpu() for row in run["rows"]]
    if place.rank == 0:
        torch.save(torch.stack(made), sys.argv[3])
    place.gather(None)
    place.leave()


if __name__ == "__main__":
    main()
    end_rank(0)
