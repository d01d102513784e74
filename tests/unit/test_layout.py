"""Shard arithmetic: bytes to the byte, fused parts, and what does not divide."""

from __future__ import annotations

from pathlib import Path

import pytest
from dcompile.facts.folder import component_of_folder
from dcompile.facts.registry import load_model
from dcompile.facts.types import ComponentFacts, TensorGroup, TensorStyle
from dcompile.layout.degrees import tensor_degrees
from dcompile.layout.placement import parts_of
from dcompile.layout.shard import count_parameters, dtype_bytes, parameter_shards, undivided, weight_bytes
from dcompile.layout.stored import Storage

# bfloat16, with diffusers' own tensor plans, computed from its shard specs on the meta device.
REFERENCE = [
    ("black-forest-labs/FLUX.1-dev", 1, 23_802_816_640),
    ("black-forest-labs/FLUX.1-dev", 2, 15_194_470_528),
    ("black-forest-labs/FLUX.1-dev", 4, 10_890_297_472),
    ("black-forest-labs/FLUX.1-dev", 8, 8_738_210_944),
    ("black-forest-labs/FLUX.2-dev", 1, 64_446_562_304),
    ("black-forest-labs/FLUX.2-dev", 4, 17_336_139_776),
    ("black-forest-labs/FLUX.2-dev", 8, 9_484_402_688),
    ("Qwen/Qwen-Image", 1, 40_860_802_176),
    ("Qwen/Qwen-Image", 4, 20_472_614_016),
    ("Qwen/Qwen-Image", 8, 17_074_582_656),
]


@pytest.mark.parametrize(("model", "degree", "expected"), REFERENCE)
def test_weight_bytes(model: str, degree: int, expected: int) -> None:
    transformer = load_model(model).components["transformer"]
    assert undivided(transformer, degree) == []
    assert weight_bytes(transformer, dtype_bytes("bfloat16"), degree) == expected


def component(*parameters: TensorGroup, plan: tuple[TensorStyle, ...]) -> ComponentFacts:
    return ComponentFacts("Tiny", "diffusers", {}, parameters, plan)


def test_shards_of_each_style() -> None:
    tiny = component(
        TensorGroup("blocks.*.up.weight", (8, 4), 3),
        TensorGroup("blocks.*.up.bias", (8,), 3),
        TensorGroup("blocks.*.down.weight", (4, 8), 3),
        TensorGroup("blocks.*.down.bias", (4,), 3),
        TensorGroup("blocks.*.fused.weight", (12, 4), 3),
        TensorGroup("blocks.*.out.weight", (4, 10), 3),
        TensorGroup("norm.weight", (4,)),
        plan=(
            TensorStyle("blocks.*.up", "colwise"),
            TensorStyle("blocks.*.down", "rowwise"),
            TensorStyle("blocks.*.fused", "packed_colwise", (1, 1)),
            TensorStyle("blocks.*.out", "packed_rowwise", (4, 6)),
        ),
    )
    assert parameter_shards(tiny, 2) == {
        "blocks.*.up.weight": (0, (8,)),
        "blocks.*.up.bias": (0, (8,)),
        "blocks.*.down.weight": (1, (8,)),
        "blocks.*.fused.weight": (0, (6, 6)),
        "blocks.*.out.weight": (1, (4, 6)),
    }
    assert parameter_shards(tiny, 1) == {}
    whole = 3 * (32 + 8 + 32 + 4 + 48 + 40) + 4
    assert count_parameters(tiny) == whole
    assert weight_bytes(tiny, 4) == 4 * whole
    assert weight_bytes(tiny, 4, 2) == 4 * (3 * (16 + 4 + 16 + 4 + 24 + 20) + 4)
    assert undivided(tiny, 2) == []
    assert undivided(tiny, 4) == [
        ("blocks.*.fused.weight", 6),
        ("blocks.*.fused.weight", 6),
        ("blocks.*.out.weight", 6),
    ]


def test_a_pattern_covers_blocks_that_are_written_out() -> None:
    tiny = component(
        TensorGroup("blocks.0.up.weight", (8, 4)),
        TensorGroup("blocks.1.up.weight", (16, 4)),
        TensorGroup("blocks.extra.up.weight", (8, 4)),
        plan=(TensorStyle("blocks.*.up", "colwise"),),
    )
    assert parameter_shards(tiny, 2) == {"blocks.0.up.weight": (0, (8,)), "blocks.1.up.weight": (0, (16,))}


@pytest.mark.slow
@pytest.mark.parametrize("model", ["black-forest-labs/FLUX.1-dev", "black-forest-labs/FLUX.2-dev", "Qwen/Qwen-Image"])
def test_shards_are_those_of_the_library(model: str) -> None:
    generate = pytest.importorskip("dcompile.facts.generate")
    from diffusers.hooks.tensor_parallel import resolve_tp_shard_specs

    facts = load_model(model).components["transformer"]
    module = generate.build(facts.class_name, facts.library, facts.config)
    specs = resolve_tp_shard_specs(module, type(module)._tp_plan, 2)
    library = {name: (spec.dim, tuple(spec.block_sizes)) for name, spec in specs.items() if spec.dim is not None}
    repeats = {group.name: group.repeat for group in facts.parameters}
    ours = {
        name.replace("*", str(index)): shard
        for name, shard in parameter_shards(facts, 2).items()
        for index in range(repeats[name])
    }
    assert ours == library


TINY = {
    "FluxTransformer2DModel": {
        "num_layers": 2,
        "num_single_layers": 3,
        "attention_head_dim": 8,
        "num_attention_heads": 4,
        "joint_attention_dim": 8,
        "pooled_projection_dim": 8,
        "axes_dims_rope": [2, 2, 4],
    },
    "Flux2Transformer2DModel": {
        "num_layers": 2,
        "num_single_layers": 3,
        "attention_head_dim": 8,
        "num_attention_heads": 4,
        "joint_attention_dim": 8,
        "mlp_ratio": 2.5,
        "axes_dims_rope": [2, 2, 2, 2],
    },
    "QwenImageTransformer2DModel": {
        "num_layers": 2,
        "attention_head_dim": 8,
        "num_attention_heads": 4,
        "joint_attention_dim": 8,
        "axes_dims_rope": [2, 2, 4],
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("class_name", TINY)
def test_shards_of_a_folder_are_those_of_the_library(class_name: str, tmp_path: Path) -> None:
    diffusers = pytest.importorskip("diffusers")
    from diffusers.hooks.tensor_parallel import resolve_tp_shard_specs

    module = getattr(diffusers, class_name)(**TINY[class_name])
    module.save_pretrained(tmp_path, max_shard_size="20KB")
    facts = component_of_folder(tmp_path, class_name)
    assert count_parameters(facts) == sum(parameter.numel() for parameter in module.parameters())
    assert facts.heads == 4
    specs = resolve_tp_shard_specs(module, module._tp_plan, 2)
    library = {name: (spec.dim, tuple(spec.block_sizes)) for name, spec in specs.items() if spec.dim is not None}
    repeats = {group.name: group.repeat for group in facts.parameters}
    ours = {
        name.replace("*", str(index)): shard
        for name, shard in parameter_shards(facts, 2).items()
        for index in range(repeats[name])
    }
    assert ours == library


def test_the_legal_tensor_degrees_of_components() -> None:
    degrees = {
        (model, name): tensor_degrees(component)
        for model in ("black-forest-labs/FLUX.1-dev", "black-forest-labs/FLUX.2-dev", "Qwen/Qwen-Image")
        for name, component in load_model(model).components.items()
        if component.tensor_plan
    }
    assert degrees == {
        ("black-forest-labs/FLUX.1-dev", "transformer"): (1, 2, 3, 4, 6, 8, 12, 24),
        ("black-forest-labs/FLUX.2-dev", "transformer"): (1, 2, 3, 4, 6, 8, 12, 16, 24, 48),
        ("black-forest-labs/FLUX.2-dev", "text_encoder"): (1, 2, 4, 8),  # 32 heads, 8 of keys and values
        ("Qwen/Qwen-Image", "transformer"): (1, 2, 3, 4, 6, 8, 12, 24),
        ("Qwen/Qwen-Image", "text_encoder"): (1, 2, 4),  # 28 heads, 4 of keys and values
    }


def test_bytes_of_a_split_text_encoder() -> None:
    encoder = load_model("black-forest-labs/FLUX.2-dev").components["text_encoder"]
    config = encoder.config["text_config"]
    width, inner = config["hidden_size"], config["intermediate_size"]
    of_heads = (2 * config["num_attention_heads"] + 2 * config["num_key_value_heads"]) * config["head_dim"]
    split = config["num_hidden_layers"] * width * (of_heads + 3 * inner)
    for degree in (2, 4, 8):
        saved = split * (degree - 1) // degree * 2
        assert weight_bytes(encoder, 2, degree) == weight_bytes(encoder, 2) - saved


@pytest.mark.parametrize(
    ("model", "parameters", "buffers"),
    [
        ("stabilityai/stable-diffusion-3.5-large", 8_056_627_520, 36864 * 2432),
        ("stabilityai/stable-diffusion-3-medium-diffusers", 2_028_328_000, 36864 * 1536),
    ],
)
def test_saved_buffers_are_weights_too(model: str, parameters: int, buffers: int) -> None:
    """SD3's table of positions: 179 MB of the large model in bfloat16."""
    transformer = load_model(model).components["transformer"]
    assert count_parameters(transformer) == parameters
    assert weight_bytes(transformer, dtype_bytes("bfloat16")) == 2 * (parameters + buffers)
    parts = parts_of(transformer, Storage("bfloat16"))
    assert sum(sum(part.values()) for part in (parts.blocks, parts.tail, parts.rest)) == 2 * (parameters + buffers)


@pytest.mark.parametrize("model", ["FLUX.1-dev", "FLUX.2-dev"])
def test_reference_models_have_no_saved_buffers(model: str) -> None:
    assert not load_model(f"black-forest-labs/{model}").components["transformer"].buffers
