"""The tiny pipelines, saved once in a process that has imported everything."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the oracle needs the extra `run`")

from .warm import warm
from .zoo import save_all


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every tiny pipeline."""
    warm()
    folder = tmp_path_factory.mktemp("oracle")
    save_all(folder)
    return folder
