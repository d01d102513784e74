"""What holds for every plan: each parameter is placed exactly once, and shards add up to the whole."""

from __future__ import annotations

from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import pytest
from dcompile.driver import Compiled, compile_recipe
from dcompile.facts.registry import known_models, load_model
from dcompile.facts.types import ComponentFacts
from dcompile.layout.shard import dtype_bytes, parameter_shards
from dcompile.rules.model.component_elsewhere import ELSEWHERE
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

MODELS = sorted(name for name in known_models() if not load_model(name).pictures and name not in ELSEWHERE)
"""The others are refused: DC330, DC319."""
DIVISORS = (1, 2, 3, 4, 6, 8, 12)
SPLIT = [
    model
    for model in MODELS
    if ("FLUX" in model or "Qwen" in model) and (load_model(model).components["transformer"].heads or 0) % 24 == 0
]
"""Models whose heads every one of these degrees divides."""
SETTINGS = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

degrees = st.sampled_from(DIVISORS)
dtypes = st.sampled_from(["float32", "bfloat16", "float16"])


def width(facts: ComponentFacts, name: str, dtype: str) -> int:
    """Bytes of a number: T5 keeps some in float32 where float16 is asked for, Wan whatever is asked for."""
    stays = (facts.library == "diffusers" or dtype == "float16") and any(
        part in facts.float32 for part in name.split(".")
    )
    return 4 if stays else dtype_bytes(dtype)


@cache
def whole_bytes(model: str, component: str, dtype: str) -> int:
    facts = load_model(model).components[component]
    groups = (*facts.parameters, *facts.buffers)
    return sum(prod(group.shape) * group.repeat * width(facts, group.name, dtype) for group in groups)


def compiled(folder: Path, model: str, dtype: str, parallel: dict[str, Any], **run: Any) -> Compiled:
    file = folder / "recipe.yaml"
    file.write_text(
        f"""version: 1
model: {{id: {model}, dtype: {dtype}}}
devices: {{kind: cpu, per_node: {run.pop("devices", 1)}}}
parallel: {parallel}
run: {{prompts: {run.pop("prompts", ["a"])}}}
""".replace("True", "true").replace("'", '"'),
        encoding="utf-8",
    )
    return compile_recipe(file)


def plan_of(done: Compiled) -> dict[str, Any]:
    assert done.plan_json is not None, done.diagnostics
    return done.plan_json


def held(plan: dict[str, Any], component: str) -> list[int]:
    none = {"weight_bytes": 0}
    return [device["components"].get(component, none)["weight_bytes"] for device in plan["devices"]]


@SETTINGS
@given(model=st.sampled_from(SPLIT), dtype=dtypes, degree=degrees)
def test_shards_add_up(tmp_path: Path, model: str, dtype: str, degree: int) -> None:
    facts = load_model(model).components["transformer"]
    plan = plan_of(compiled(tmp_path, model, dtype, {"tensor": degree}, devices=degree))
    shards = parameter_shards(facts, degree)
    divided = sum(prod(group.shape) * group.repeat for group in facts.parameters if group.name in shards)
    size = dtype_bytes(dtype)
    whole = whole_bytes(model, "transformer", dtype)
    repeated = whole - divided * size
    shares = held(plan, "transformer")
    assert len(shares) == degree
    assert sum(share - repeated for share in shares) == divided * size if degree > 1 else shares == [whole]
    for name in plan["components"]:
        if name != "transformer":
            assert held(plan, name) == [whole_bytes(model, name, dtype)] * degree


@SETTINGS
@given(model=st.sampled_from(SPLIT), degree=st.sampled_from(DIVISORS[1:]))
def test_the_program_names_real_parameters_and_whole_parts(tmp_path: Path, model: str, degree: int) -> None:
    plan = plan_of(compiled(tmp_path, model, "bfloat16", {"tensor": degree}, devices=degree))
    shapes = {group.name: group.shape for group in load_model(model).components["transformer"].parameters}
    tensor = plan["program"]["components"]["transformer"]["tensor"]
    assert tensor["degree"] == degree
    assert tensor["parameters"]
    for name, split in tensor["parameters"].items():
        assert sum(split["parts"]) == shapes[name][split["dim"]]
        assert all(part % degree == 0 for part in split["parts"])


@SETTINGS
@given(
    model=st.sampled_from(MODELS),
    dtype=dtypes,
    data=st.integers(1, 3),
    devices=st.integers(1, 4),
)
def test_balanced_places_every_component_once(tmp_path: Path, model: str, dtype: str, data: int, devices: int) -> None:
    parallel = {"device_map": "balanced", "data": data}
    plan = plan_of(compiled(tmp_path, model, dtype, parallel, devices=data * devices, prompts=["a"] * data))
    assert set(plan["components"]) == set(load_model(model).components)
    for name in plan["components"]:
        shares = held(plan, name)
        whole = whole_bytes(model, name, dtype)
        for replica in range(data):
            mine = shares[replica * devices : (replica + 1) * devices]
            assert sorted(mine) == [0] * (devices - 1) + [whole]


@SETTINGS
@given(model=st.sampled_from(MODELS), dtype=dtypes, order=st.permutations([0, 1, 2]), count=st.integers(2, 3))
def test_a_cut_places_every_parameter_once(
    tmp_path: Path, model: str, dtype: str, order: list[int], count: int
) -> None:
    denoiser = load_model(model).denoisers[0]
    done = compiled(tmp_path, model, dtype, {"device_map": {denoiser: order[:count]}}, devices=3)
    assume(done.plan_json is not None or any(found.code == "DC407" for found in done.diagnostics))
    plan = plan_of(done)
    assert sum(held(plan, denoiser)) == whole_bytes(model, denoiser, dtype)
    assert {device for device, share in enumerate(held(plan, denoiser)) if share} <= set(order[:count])
    blocks = plan["program"]["components"][denoiser]["blocks"]
    facts = load_model(model).components[denoiser]
    counted = dict.fromkeys(range(3), 0)
    for group in (*facts.parameters, *facts.buffers):
        names = [group.name.replace("*", str(i)) for i in range(group.repeat)] if "*" in group.name else [group.name]
        for name in names:
            # The longest key that is a prefix holds, as in accelerate.
            keys = [key for key in blocks if name == key or name.startswith(f"{key}.")]
            assert keys, f"{name} has no device"
            counted[blocks[max(keys, key=len)]] += prod(group.shape) * width(facts, group.name, dtype)
    assert [counted[device] for device in range(len(plan["devices"]))] == held(plan, denoiser)


@SETTINGS
@given(
    model=st.sampled_from(MODELS),
    data=st.integers(1, 3),
    ring=st.sampled_from([1, 2, 4]),
    ulysses=st.sampled_from([1, 2, 4]),
    prompts=st.integers(1, 9),
)
def test_whatever_is_accepted_adds_up(
    tmp_path: Path, model: str, data: int, ring: int, ulysses: int, prompts: int
) -> None:
    count = data * ring * ulysses
    parallel = {"data": data, "context": {"ring": ring, "ulysses": ulysses}}
    done = compiled(tmp_path, model, "bfloat16", parallel, devices=count, prompts=["a"] * prompts)
    if done.plan_json is None:
        of_the_split = {"DC401", "DC402", "DC403", "DC406", "DC416", "DC417", "DC419", "DC601", "DC607", "DC608"}
        assert {found.code for found in done.diagnostics} <= of_the_split
        return
    plan = done.plan_json
    assert prod(plan["mesh"].values()) == count == len(plan["devices"])
    run = plan["program"]["run"]
    assert [row for share in run["shares"] for row in share] == list(range(prompts))
    assert len(run["shares"]) == data
    assert len({row["seed"] for row in run["rows"]}) == prompts
    for name in plan["components"]:
        assert held(plan, name) == [whole_bytes(model, name, "bfloat16")] * count


@pytest.mark.parametrize("model", MODELS)
def test_every_known_model_compiles_on_one_device(tmp_path: Path, model: str) -> None:
    plan = plan_of(compiled(tmp_path, model, "bfloat16", {}))
    assert plan["strategy"] == "single"
    (device,) = plan["devices"]
    assert device["weight_bytes"] == sum(whole_bytes(model, name, "bfloat16") for name in plan["components"])
