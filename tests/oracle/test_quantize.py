"""Quantized weights: their bytes are those that the plan counts, and pictures under every split are those of one device
that quantizes the same way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the oracle needs the extra `run`")

pytestmark = pytest.mark.slow


def by(kind: str, **own: str) -> dict[str, Any]:
    """A component that torchao quantizes."""
    return {"quantize": {"method": "torchao", "type": kind}, **own}


def recipe_of(components: dict[str, Any], parallel: dict[str, Any], **model: Any) -> dict[str, Any]:
    from .zoo import FAMILIES

    height, width = FAMILIES["flux"].sizes[0]
    run: dict[str, Any] = {"prompts": ["red apple", "panda face"], "height": height, "width": width}
    run |= {"steps": 2, "seed": 3, "args": {"max_sequence_length": 8}}
    head = {"version": 1, "model": {"path": "flux", "dtype": "float32", **model}, "devices": {"kind": "cpu"}}
    return {**head, "components": components, "parallel": parallel, "run": run}


ADAPTER = [{"path": "flux-lora", "weight": 0.7}]
JOBS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "bfloat16": (
        {"transformer": by("int8wo", dtype="bfloat16"), "text_encoder_2": by("int8wo")},
        {},
        {"dtype": "bfloat16"},
    ),
    "data": ({"transformer": by("int8wo"), "text_encoder": by("float8wo")}, {"data": 2}, {}),
    "ulysses": ({"transformer": by("int8wo"), "text_encoder_2": by("int8wo")}, {"context": {"ulysses": 2}}, {}),
    "ring": ({"transformer": by("float8wo")}, {"context": {"ring": 2}}, {"adapters": ADAPTER}),
    "devices": (
        {"transformer": by("int8wo"), "text_encoder": by("int8wo")},
        {"device_map": {"transformer": 1, "text_encoder": 2}},
        {},
    ),
    "offload": (
        {"transformer": by("int8wo"), "text_encoder": by("float8wo"), "text_encoder_2": by("int8wo")},
        {"components": {name: {"offload": "model"} for name in ("transformer", "text_encoder", "text_encoder_2")}},
        {"adapters": ADAPTER},
    ),
    "blocks": ({"transformer": by("int8wo")}, {"device_map": {"transformer": [0, 1]}}, {"adapters": ADAPTER}),
}


@pytest.mark.parametrize("name", JOBS)
def test_the_pictures_are_those_of_one_device(name: str, root: Path) -> None:
    from .ask import AGREED_YES, ask

    components, parallel, model = JOBS[name]
    finding = ask(recipe_of(components, parallel, **model), root)
    assert finding.outcome == AGREED_YES, (finding.codes, finding.error, finding.difference, finding.traceback)


def test_an_adapter_that_is_merged_is_rounded_away(root: Path) -> None:
    """Why DC436 refuses it: the same adapter makes another picture as layers of its own."""
    from . import plain, runtime
    from .ask import TOLERANCE, compare, verdict

    recipe = recipe_of({"transformer": by("int8wo")}, {}, adapters=[{**ADAPTER[0], "fuse": True}])
    assert verdict(recipe, root)[0] == ("DC436",)
    beside = recipe_of({"transformer": by("int8wo")}, {}, adapters=ADAPTER)
    _, plan = verdict(beside, root)
    assert plan is not None
    plan["program"]["pipeline"]["adapters"][0]["fuse"] = True
    made = runtime.run_plan(plan, root)
    assert made.error is None, made.traceback
    difference, _ = compare(made.ranks, plain.run_recipe(beside, root).ranks[0], (TOLERANCE, TOLERANCE))
    assert difference > 100 * TOLERANCE


def held_bytes(module: Any) -> int:
    """Bytes of the storages of a module's parameters, those inside of quantized ones included, and of saved buffers."""

    def of(tensor: Any) -> int:
        if hasattr(tensor, "__tensor_flatten__"):
            return sum(of(getattr(tensor, name)) for name in tensor.__tensor_flatten__()[0])
        return int(tensor.untyped_storage().nbytes())

    # A folder's facts leave the statistics of a batch norm out: some hundred numbers of FLUX.2's autoencoder.
    saved = module.state_dict().items()
    kept = {name for name, tensor in saved if tensor.is_floating_point() and ".running_" not in f".{name}"}
    buffers = [buffer for name, buffer in module.named_buffers() if name in kept]
    return sum(of(tensor) for tensor in (*module.parameters(), *buffers))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("kind", [None, "int8wo", "float8wo", "float8wo_e5m2"])
def test_bytes_are_those_that_are_stored(kind: str | None, dtype: str, root: Path) -> None:
    """Of every component of every tiny pipeline, whole and quantized: embeddings, norms, and what stays in float32."""
    import torch
    from dcompile.facts.folder import facts_of_folder
    from dcompile.layout.stored import Storage, quantized_matrices, stored_bytes
    from diffusers import DiffusionPipeline

    from . import plain
    from .zoo import FAMILIES

    counted = 0
    for family in FAMILIES:
        facts = facts_of_folder(root / family).components
        can = [name for name, component in facts.items() if component.unquantized is not None and kind]
        asked = {name: {"quantize": {"method": "torchao", "type": kind}} for name in can}
        options = plain._quantizing({"components": asked}, root / family)
        pipeline = DiffusionPipeline.from_pretrained(root / family, dtype=getattr(torch, dtype), **options)
        for name, component in facts.items():
            storage = Storage(dtype, "torchao", kind) if name in can else Storage(dtype)
            assert stored_bytes(component, storage) == held_bytes(getattr(pipeline, name)), (family, name)
            counted += quantized_matrices(component, storage)[0]
    assert (counted > 0) == (kind is not None)


@pytest.mark.parametrize("kind", ["int8", "nf4", "fp4"])
def test_bytes_of_bitsandbytes(kind: str) -> None:
    """One matrix: diffusers quantizes a model with it on accelerators only."""
    bitsandbytes = pytest.importorskip("bitsandbytes", reason="two seconds more for every rank, and its use is on GPUs")
    import torch
    from dcompile.layout.stored import TYPES

    rows, columns = 97, 256
    weight = torch.randn(rows, columns)
    if kind == "int8":
        stored = bitsandbytes.nn.Int8Params(weight, requires_grad=False, has_fp16_weights=False).to("cpu")
        tensors = [stored.CB, stored.SCB]
    else:
        stored = bitsandbytes.nn.Params4bit(weight, requires_grad=False, quant_type=kind, compress_statistics=False)
        stored = stored.to("cpu")
        tensors = [stored.data, stored.quant_state.absmax, stored.quant_state.code]
    assert TYPES["bitsandbytes"][kind].stored(rows, columns) == sum(t.untyped_storage().nbytes() for t in tensors)
