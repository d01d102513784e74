"""A plan for two nodes, started by its own script: two torchruns on this machine stand for them."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from dcompile.cli.main import main
from PIL import Image

RECIPES = Path(__file__).parents[2] / "recipes"
RECIPE = """version: 1
model: {{path: quickstart_model, dtype: float32}}
devices: {{kind: cpu, per_node: {per_node}, nodes: {nodes}}}
parallel: {{tensor: 2}}
run: {{prompts: [red apple], height: 32, width: 32, steps: 2, seed: 42, args: {{max_sequence_length: 8}}}}
output: {{dir: out/{nodes}}}
"""
LIMIT_SECONDS = 300


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("localhost", 0))
        return int(one.getsockname()[1])


@pytest.mark.slow
def test_two_nodes_make_the_pictures_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(RECIPES / "quickstart_model", tmp_path / "quickstart_model")
    for nodes, per_node in ((1, 2), (2, 1)):
        (tmp_path / f"job{nodes}.yaml").write_text(RECIPE.format(nodes=nodes, per_node=per_node), encoding="utf-8")
    assert main(["run", "job1.yaml", "--progress", "none"]) == 0
    assert main(["job2.yaml"]) == 0
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "MASTER_ADDR": "localhost", "MASTER_PORT": str(free_port())}
    environment |= {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    command = ["sh", "build/job2/launch/torchrun.sh", "--root", "."]
    nodes = [subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        said = [node.communicate(timeout=LIMIT_SECONDS)[1] for node in nodes]
    finally:
        for node in nodes:
            node.terminate()  # torchrun ends its ranks; killed, it would leave them behind
        for node in nodes:
            node.wait(timeout=60)
    assert [node.returncode for node in nodes] == [0, 0], said
    one, two = (np.asarray(Image.open(f"out/{count}/00000.png")) for count in (1, 2))
    assert np.array_equal(one, two)
