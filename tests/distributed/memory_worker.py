"""One rank of the memory test: `torchrun memory_worker.py FOLDER LAYOUT OUT` samples RssAnon while it loads."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist
from dcompile.core.ending import end_rank
from dcompile.runtime import ranks, weights
from diffusers import FluxTransformer2DModel
from torch.distributed.tensor import DTensor


def anonymous_bytes() -> int:
    """What this process holds outside of mapped files."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("RssAnon"))


def main() -> None:
    """Loads one rank's shard and writes the peak above the start, and the bytes it keeps."""
    folder, layout, out = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text(encoding="utf-8")), sys.argv[3]
    world = int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo")
    mesh = ranks.build_mesh("cpu", {"tensor": world})["tensor"]
    torch.ones(8, 8) @ torch.ones(8, 8)
    start, peak, done = anonymous_bytes(), [0], threading.Event()

    def watch() -> None:
        while not done.is_set():
            peak[0] = max(peak[0], anonymous_bytes())
            time.sleep(0.002)

    watcher = threading.Thread(target=watch)
    watcher.start()
    model = weights.load_streaming(FluxTransformer2DModel, folder, torch.float32, layout, mesh, torch.device("cpu"))
    done.set()
    watcher.join()
    locals_ = [part.to_local() if isinstance(part, DTensor) else part for part in model.parameters()]
    kept = sum(part.numel() * part.element_size() for part in locals_)
    result = {"peak": peak[0] - start, "kept": kept}
    if dist.get_rank() == 0:
        Path(out).write_text(json.dumps(result), encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    end_rank(0)
