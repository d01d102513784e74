"""`dcompile.load` in a script: alone, with logical devices, and inside a job of torchrun."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from dcompile.runtime import quiet
from PIL import Image

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SCRIPT = """
import sys
import dcompile, torch
pipeline = dcompile.load(sys.argv[1])
pipeline.set_progress_bar_config(disable=True)
generator = torch.Generator("cpu").manual_seed(42)
picture = pipeline(
    "red apple", height=32, width=32, num_inference_steps=3, max_sequence_length=8, generator=generator
).images[0]
line = f"world {torch.distributed.get_world_size()} transformer on {pipeline.transformer.device}"
sys.stdout.write(line + chr(10))  # one write: the ranks share a pipe, and torchrun leaves it unbuffered
if torch.distributed.get_rank() == 0:
    picture.save(sys.argv[2])
dcompile.end()
"""


def run(recipe: str, folder: Path, ranks: int = 1) -> tuple[np.ndarray, str]:
    """What the script draws with a recipe of the repository, and what its ranks say."""
    script, out = folder / "picture.py", folder / f"{recipe}.png"
    script.write_text(SCRIPT, encoding="utf-8")
    command = [sys.executable]
    if ranks > 1:
        command += ["-m", "torch.distributed.run", "--standalone", "--local-addr", "localhost"]
        command += ["--nproc-per-node", str(ranks)]
    command += [str(script), str(ROOT / "recipes" / f"{recipe}.yaml"), str(out)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert ranks > 1 or done.stderr == ""  # no notes of the libraries, and no bars
    return np.asarray(Image.open(out)).astype(int), done.stdout


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    picture, said = run("quickstart", tmp_path_factory.mktemp("alone"))
    assert "world 1 " in said
    return picture


def test_a_device_map_has_its_logical_devices(alone: np.ndarray, tmp_path: Path) -> None:
    picture, said = run("quickstart-device-map", tmp_path)
    assert "transformer on cpu:" in said
    assert np.abs(picture - alone).max() <= 1


def test_a_job_that_is_missing_is_told_how_to_start(tmp_path: Path) -> None:
    recipe = str(ROOT / "recipes" / "quickstart-tensor.yaml")
    command = [sys.executable, "-c", f"import dcompile; dcompile.load({recipe!r})"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert "made for 2: start 2, such as with `torchrun --nproc-per-node 2`" in done.stderr


def test_a_script_has_its_own_settings_back() -> None:
    import diffusers
    import transformers

    both = (diffusers.utils.logging, transformers.utils.logging)
    for own in (10, 30):
        for library in both:
            library.set_verbosity(own)
            library.enable_progress_bar()
        with quiet.while_loading():
            assert {library.get_verbosity() for library in both} == {10 if own == 10 else 40}
            assert not any(library.is_progress_bar_enabled() for library in both)
        assert {library.get_verbosity() for library in both} == {own}
        assert all(library.is_progress_bar_enabled() for library in both)


def test_two_ranks_of_torchrun(alone: np.ndarray, tmp_path: Path) -> None:
    picture, said = run("quickstart-tensor", tmp_path, ranks=2)
    assert said.count("world 2 ") == 2
    assert np.abs(picture - alone).max() <= 1
