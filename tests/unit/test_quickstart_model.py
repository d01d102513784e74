"""The quickstart model loads with stock diffusers, is small, and draws what its prompts name."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from diffusers import FluxPipeline

FOLDER = Path(__file__).resolve().parents[2] / "recipes" / "quickstart_model"
WEIGHTS_LIMIT = 8_000_000  # bytes, in git


@pytest.fixture(scope="module")
def evaluate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("quickstart_evaluate", FOLDER / "evaluate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def captions() -> list[str]:
    return (FOLDER / "prompts.txt").read_text(encoding="utf-8").splitlines()


def test_weights_are_small_safetensors() -> None:
    assert sum(path.stat().st_size for path in FOLDER.rglob("*.safetensors")) < WEIGHTS_LIMIT
    assert not [path for pattern in ("*.bin", "*.pt", "*.ckpt") for path in FOLDER.rglob(pattern)]


def test_heads_divide_by_two_and_four() -> None:
    config = json.loads((FOLDER / "transformer" / "config.json").read_text(encoding="utf-8"))
    assert config["num_attention_heads"] % 4 == 0


def test_means_match_the_prompts(evaluate: ModuleType) -> None:
    means = evaluate.Means.load(FOLDER / "means.npz")
    assert means.captions == captions()
    assert means.pictures.shape == (len(means.captions), 32, 32, 3)


def test_pictures_show_their_prompts(evaluate: ModuleType) -> None:
    means = evaluate.Means.load(FOLDER / "means.npz")
    pipeline = FluxPipeline.from_pretrained(FOLDER)
    pipeline.set_progress_bar_config(disable=True)
    prompts = ["red apple", "panda face", "slice of pizza", "cactus"]
    pictures = evaluate.generate(pipeline, prompts, seeds=[0, 1, 2, 3], size=32)
    assert [means.nearest(np.asarray(picture)) for picture in pictures] == prompts
