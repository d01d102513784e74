"""Every known model compiles: alone on a device, and by what `auto` chooses for four."""

from __future__ import annotations

from typing import Any

import pytest
from dcompile.core.diagnostics import has_errors
from dcompile.facts.registry import known_models, load_model
from dcompile.rules.model.component_elsewhere import ELSEWHERE

PARALLEL = {"alone": ("h200-sxm, per_node: 1", "{}"), "auto": ("h100-sxm-80gb, per_node: 4", "auto")}


@pytest.mark.parametrize("parallel", PARALLEL)
@pytest.mark.parametrize("model", known_models())
def test_it_compiles(model: str, parallel: str, compiled: Any, picture: Any) -> None:
    devices, split = PARALLEL[parallel]
    needed = load_model(model).pictures
    model_line = f"path: folder, like: {model}" if model in ELSEWHERE else f"id: {model}"
    images = f", images: [{picture(1024, 1024)}]" if needed else ""
    found = compiled(
        f"""
        version: 1
        model: {{{model_line}}}
        devices: {{gpu: {devices}}}
        parallel: {split}
        run: {{prompts: [a red fox]{images}}}
        """
    )
    if set(needed) <= {"image"}:
        assert not has_errors(found.diagnostics), found.diagnostics
        assert found.plan_json is not None
    else:  # control pictures, videos and masks cannot be given yet
        assert "DC330" in {diagnostic.code for diagnostic in found.diagnostics}
