"""Padded text under context parallelism, as the installed diffusers does it: why DC416 refuses what it refuses.

A diffusers that gets one of these right makes its test fail, and the rule can be narrowed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

TIME_LIMIT = 400
MODES = {2: ("1x2-even", "1x2-uneven", "2x1-even", "2x1-uneven"), 4: ("1x4-uneven",)}
"""Ring x Ulysses, by the number of ranks."""

Found = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What every mode gives; one job for each number of ranks."""
    made: Found = {}
    for ranks, modes in MODES.items():
        out = tmp_path_factory.mktemp("masks") / "found.json"
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "localhost"]
        command += ["--nproc-per-node", str(ranks), str(Path(__file__).with_name("masked_worker.py")), str(out)]
        done = subprocess.run([*command, *modes], capture_output=True, timeout=TIME_LIMIT)
        assert done.returncode == 0, done.stderr.decode()[-2000:]
        made |= json.loads(out.read_text())
    return made


@pytest.mark.parametrize("mode", ["1x2-even", "1x2-uneven"])
def test_these_are_right(mode: str, found: Found) -> None:
    assert found[mode]["difference"] < 1e-4


def test_uneven_ulysses_on_four_ranks_is_wrong_in_silence(found: Found) -> None:
    assert found["1x4-uneven"]["difference"] > 1e-3


@pytest.mark.parametrize("mode", ["2x1-even", "2x1-uneven"])
def test_the_ring_refuses_a_mask(mode: str, found: Found) -> None:
    """On CUDA the even ring runs with cuDNN's attention and is wrong; the CPU's kernel refuses the mask itself."""
    assert "mask" in found[mode]["error"]
