"""The tiny model, saved once, and the runs that the tests compare with."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the distributed tests need the extra `run`")
sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

import tiny_models


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recipe's folder with the tiny Flux in `flux/`."""
    folder = tmp_path_factory.mktemp("recipe")
    tiny_models.save_flux(folder / "flux")
    return folder
