"""The verdict on a scheduler is what really happens: every class is tried on tiny pipelines in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import diffusers
import pytest
import tiny_models as tiny
import torch
from dcompile.facts.folder import facts_of_folder
from dcompile.facts.schedulers import known_schedulers
from dcompile.rules.parallel.scheduler_misfit import misfit

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

FLOW = {"prediction_type": "flow_prediction", "use_flow_sigmas": True}
SETTINGS: tuple[dict[str, Any], ...] = ({}, FLOW, {**FLOW, "use_dynamic_shifting": True})
RUNS_BUT_IS_WRONG = ("the model predicts", "the model's `prediction_type`")


def call_of(pipeline: Any) -> dict[str, Any]:
    call = {"height": 32, "width": 32, "num_inference_steps": 3, "output_type": "latent", "max_sequence_length": 8}
    return call | ({"num_frames": 5} if "Wan" in type(pipeline).__name__ else {})


def fault_of(pipeline: Any, name: str, config: Any, settings: dict[str, Any]) -> str | None:
    """What a pipeline raises with a scheduler, or None."""
    try:
        pipeline.scheduler = getattr(diffusers, name).from_config(config, **settings)
        pipeline(prompt="red apple", generator=torch.Generator().manual_seed(0), **call_of(pipeline))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


@pytest.mark.parametrize("family", ["flux", "wan"])
def test_what_is_refused_fails_and_what_is_accepted_runs(family: str, tmp_path: Path) -> None:
    folder = {"flux": tiny.save_flux, "wan": tiny.save_wan}[family](tmp_path / family)
    pipeline = diffusers.DiffusionPipeline.from_pretrained(folder)
    pipeline.set_progress_bar_config(disable=True)
    model, config = facts_of_folder(folder), pipeline.scheduler.config
    wrong, refused, accepted = [], 0, 0
    for name in known_schedulers():
        for settings in SETTINGS:
            verdict = misfit(name, model, settings)
            if verdict is not None and verdict.startswith(RUNS_BUT_IS_WRONG):
                continue
            fault = fault_of(pipeline, name, config, settings)
            refused, accepted = refused + (verdict is not None), accepted + (verdict is None)
            if (verdict is None) != (fault is None):
                wrong.append((name, settings, verdict, fault))
    assert wrong == []
    assert refused > 20
    assert accepted > 5
