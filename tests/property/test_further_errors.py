"""All mistakes at once: what later stages find beside a mistake of shape is found, and nothing is invented."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from dcompile.core.diagnostics import Severity
from dcompile.driver import compile_recipe
from dcompile.source.document import items, put

GOLDEN = Path(__file__).parents[1] / "golden" / "diagnostics"
MISTAKES: dict[tuple[str, ...], Any] = {
    ("hieght",): 3,
    ("run", "hieght"): 768,
    ("run", "resolution"): 512,
    ("run", "steps"): "many",
    ("parallel", "fully_sharded"): 2,
    ("devices", "flavour"): "big",
    ("output", "format"): "jpeg",
    ("requires",): 3,
    ("model", "dtype"): "float8",
}


def errors(file: Path, recipe: Any) -> set[tuple[str, str]]:
    """The code and the message of each error of facts and rules, fit apart."""
    text = yaml.safe_dump(recipe, sort_keys=False).encode()
    found = compile_recipe(file, text=text).diagnostics
    return {(d.code, d.message) for d in found if d.severity is Severity.ERROR and d.code.startswith(("DC3", "DC4"))}


def cases() -> list[Path]:
    def is_refused(file: Path) -> bool:
        text = file.read_text(encoding="utf-8")
        return "# expect: DC3" in text or "# expect: DC4" in text

    return [file for file in sorted(GOLDEN.glob("DC[34]*/*.yaml")) if is_refused(file)]


@pytest.mark.parametrize("file", cases(), ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_no_later_error_is_invented(file: Path) -> None:
    recipe = yaml.safe_load(file.read_text(encoding="utf-8"))
    if not isinstance(recipe, dict) or not isinstance(recipe.get("model"), dict):
        pytest.skip("the golden file is no recipe with a model, so nothing can be put into it")
    right = errors(file, recipe)
    for path, value in MISTAKES.items():
        if isinstance(recipe.get(path[0], {}), dict) or len(path) == 1:
            # A misspelt key is read as the one that it must mean, which may have no place in this recipe either.
            meant = errors(file, put(recipe, ("run", "height"), value)) if path == ("run", "hieght") else set()
            of_height = {one for one in meant if "takes no `height`" in one[1]}
            assert errors(file, put(recipe, path, value)) <= right | of_height, path
    for path, value in items(recipe):
        if isinstance(value, int) and path[0] in ("run", "parallel", "devices") and path[1:2] != ("args",):
            assert errors(file, put(recipe, path, "banana")) <= right, path


@pytest.mark.parametrize("path", [path for path in MISTAKES if path != ("parallel", "fully_sharded")], ids=str)
def test_heads_are_judged_beside_a_mistake_of_shape(path: tuple[str, ...]) -> None:
    recipe = {
        "version": 1,
        "model": {"id": "black-forest-labs/FLUX.1-dev"},
        "devices": {"gpu": "h100-sxm-80gb", "per_node": 5},
        "parallel": {"tensor": 5},
        "run": {"prompts": ["a fox"]},
    }
    found = errors(Path("r.yaml"), put(recipe, path, MISTAKES[path]))
    assert ("DC401", "24 heads of `transformer` cannot be divided by tensor 5") in found


def test_every_stage_speaks() -> None:
    text = b"""
version: 1
model: {id: black-forest-labs/FLUX.1-dev, dtype: bf16}
devices: {gpu: h100-sxm-80, per_node: 5}
parallel: {tensor: 5}
run: {prompts: missing.txt, hieght: 1000, steps: banana, args: {max_seq: 3}}
output: {format: jpeg}
"""
    found = {(d.code, d.path) for d in compile_recipe(Path("r.yaml"), text=text).diagnostics}
    assert found == {
        ("DC204", ("model", "dtype")),
        ("DC302", ("devices", "gpu")),
        ("DC401", ("parallel", "tensor")),
        ("DC201", ("run", "hieght")),
        ("DC203", ("run", "steps")),
        ("DC305", ("run", "prompts")),
        ("DC306", ("run", "args", "max_seq")),
        ("DC204", ("output", "format")),
    }


def test_a_mistake_in_the_model_hides_the_rest() -> None:
    text = b"version: 1\nmodel: {id: FLUX.1-dve}\nparallel: {tensor: 5}\nrun: {prompts: [a fox]}\n"
    assert [d.code for d in compile_recipe(Path("r.yaml"), text=text).diagnostics] == ["DC301"]
