"""A model by its hub id, from the hub's cache on this machine: as `run` finds it when it was downloaded before."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tiny_models as tiny
from dcompile.runtime.launch import run_plan
from diffusers import FluxTransformer2DModel
from PIL import Image

pytestmark = pytest.mark.slow

REVISION = "0" * 40


@pytest.fixture
def hub(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that holds the tiny Flux as `acme/tiny`, and no network."""
    cache = tmp_path / "hub"
    repository = cache / "models--acme--tiny"
    shutil.copytree(root / "flux", repository / "snapshots" / REVISION)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(REVISION, encoding="ascii")
    monkeypatch.setenv("HF_HUB_CACHE", str(cache))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return cache


@pytest.mark.parametrize("degree", [1, 2])
def test_the_cached_model_is_used(
    degree: int, hub: Path, root: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    axes, components = {}, {}
    if degree > 1:
        layout = tiny.tensor_layout(FluxTransformer2DModel, root / "flux" / "transformer", degree)
        axes, components = {"tensor": degree}, {"transformer": {"tensor": layout}}
    pictures = []
    for name, source in (("folder", {}), ("id", {"path": None, "id": "acme/tiny"})):
        out = tmp_path / name
        plan = tiny.plan("flux", rows=1, axes=axes, components=components, pipeline=source, out=out)
        assert run_plan(tiny.write_plan(plan, tmp_path), root, progress="none") == 0, capfd.readouterr().err
        (entry,) = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
        pictures.append(np.asarray(Image.open(out / entry["file"])))
    assert np.array_equal(*pictures)


def test_a_model_that_is_not_there(hub: Path, root: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    plan = tiny.plan("flux", axes={"data": 2}, pipeline={"path": None, "id": "acme/other"}, out=tmp_path / "out")
    capfd.readouterr()
    assert run_plan(tiny.write_plan(plan, tmp_path), root, progress="none") == 4
    said = capfd.readouterr().err
    assert "Traceback" not in said
    assert said.count("\n") == 1
    assert "acme/other" in said
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())
