"""Every quickstart recipe, through the command line, against the recipe of one process: the user's own path.

Two prompts and four steps of the real model: enough for a wrong layout to show, since every step calls every layer.
Pictures may differ by one 8-bit level, for sums in another order move a value across a rounding edge.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

pytestmark = pytest.mark.slow

RECIPES = Path(__file__).resolve().parents[2] / "recipes"
SPLIT = sorted(path.stem for path in RECIPES.glob("quickstart-*.yaml"))
LEVELS = 1
TIMEOUT_SECONDS = 300


def pictures(recipe: str, folder: Path, *overrides: str) -> Any:
    sets = ["run.prompts=[red apple, cherries]", "run.steps=4", f"output.dir={folder / 'out'}", *overrides]
    command = [sys.executable, "-m", "dcompile.cli.main", "run", str(RECIPES / f"{recipe}.yaml"), "--progress", "none"]
    command += [word for value in sets for word in ("--set", value)]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    return np.stack([np.asarray(Image.open(folder / "out" / f"{i:05d}.png")).astype(int) for i in range(2)])


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Any]:
    """The pictures of one process, by size in pixels."""
    sizes = (32, 36)
    folders = {size: tmp_path_factory.mktemp(f"alone{size}") for size in sizes}
    return {size: pictures("quickstart", folders[size], f"run.height={size}", f"run.width={size}") for size in sizes}


@pytest.mark.parametrize("recipe", SPLIT)
def test_a_split_recipe_makes_the_pictures_of_one_process(recipe: str, alone: dict[int, Any], tmp_path: Path) -> None:
    made = pictures(recipe, tmp_path)
    assert np.abs(made - alone[made.shape[1]]).max() <= LEVELS


def test_the_two_prompts_make_two_pictures(alone: dict[int, Any]) -> None:
    assert np.abs(alone[32][0] - alone[32][1]).max() > 50
