"""Text encoders of transformers under `tensor`: the same pictures as one process, alone and beside other splits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the oracle needs the extra `run`")

from .warm import warm

pytestmark = pytest.mark.slow
FAMILIES = ("flux2", "qwen-image")
ENCODER = {"text_encoder": {"tensor": 2}}
SPLITS: dict[str, dict[str, Any]] = {
    "alone": {"components": ENCODER},
    "with-the-denoiser": {"tensor": 2, "components": ENCODER},
    "beside-context": {"context": {"ring": 2}, "components": ENCODER},
    "in-replicas": {"data": 2, "components": ENCODER},
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    warm()
    from . import zoo

    folder = tmp_path_factory.mktemp("encoders")
    zoo.save_all(folder, FAMILIES)
    return folder


def recipe_of(family: str, parallel: dict[str, Any]) -> dict[str, Any]:
    from .zoo import FAMILIES as ALL

    height, width = ALL[family].sizes[0]
    run = {"prompts": ["red apple", "panda face"], "height": height, "width": width, "steps": 2, "seed": 3}
    return {
        "version": 1,
        "model": {"path": family, "dtype": "float32"},
        "devices": {"kind": "cpu"},
        "parallel": parallel,
        "run": run | {"args": {**ALL[family].args, "max_sequence_length": 32}},
    }


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", SPLITS)
def test_a_split_encoder_makes_the_same_pictures(family: str, name: str, root: Path) -> None:
    from .ask import AGREED_YES, ask

    if family == "qwen-image" and name == "beside-context":
        parallel = {**SPLITS[name], "context": {"ring": 2, "uneven": True}}
    else:
        parallel = SPLITS[name]
    finding = ask(recipe_of(family, parallel), root)
    assert finding.outcome == AGREED_YES, (finding.error, finding.difference, finding.traceback)
    assert finding.ranks == (4 if name in ("beside-context", "in-replicas") else 2)
    print(family, name, finding.difference)


@pytest.mark.parametrize("family", FAMILIES)
def test_four_ranks_cannot_share_two_key_value_heads(family: str, root: Path) -> None:
    from .ask import AGREED_NO, ask

    finding = ask(recipe_of(family, {"components": {"text_encoder": {"tensor": 4}}}), root)
    assert (finding.outcome, finding.codes) == (AGREED_NO, ("DC401",)), (finding.error, finding.difference)


TINY = {
    "vocab_size": 99,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "query_pre_attn_scalar": 8,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
CLASSES = ("Gemma2Model", "LlamaForCausalLM", "LlamaModel", "Qwen3ForCausalLM", "Qwen3Model")


@pytest.mark.parametrize("class_name", CLASSES)
def test_every_planned_class_computes_what_one_process_does(class_name: str, tmp_path: Path) -> None:
    warm()
    from . import processes

    answers = processes.run(2, lambda rank: difference(class_name, rank, tmp_path), 120.0)
    assert [answer.error for answer in answers] == [None, None]
    assert max(answer.value for answer in answers) < 1e-5


def difference(class_name: str, rank: int, folder: Path) -> float:
    """Between the hidden states of a tiny model whole and split over two ranks, by the plan in our facts."""
    import torch
    import torch.distributed as dist
    import transformers
    from dcompile.facts.folder import component_of_folder
    from dcompile.layout.splits import Split
    from dcompile.lower.program import tensor_layout
    from dcompile.runtime import tensor_parallel
    from torch.distributed.device_mesh import init_device_mesh

    dist.init_process_group("gloo", store=dist.FileStore(str(folder / "store"), 2), rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tensor",))
    torch.manual_seed(0)
    model_class = getattr(transformers, class_name)
    model = model_class(model_class.config_class(**TINY)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape) * 0.3 + (1.0 if parameter.dim() == 1 else 0.0))
        model.save_pretrained(folder / "model")  # the first rank writes
        dist.barrier()
        tokens = torch.arange(1, 13)[None]
        # Of every layer: pipelines take different ones, the last but two of Llama's, three of Qwen3's.
        expected = torch.stack(model(tokens, output_hidden_states=True).hidden_states)
        layout = tensor_layout(component_of_folder(folder / "model", class_name, "transformers"), Split(tensor=2))
        tensor_parallel.shard_in_memory(model, layout, mesh["tensor"], torch.device("cpu"))
        split = torch.stack(model(tokens, output_hidden_states=True).hidden_states)
    return float((split - expected).abs().max() / expected.abs().max())
