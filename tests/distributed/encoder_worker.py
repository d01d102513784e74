"""One rank of the test of text encoders: `torchrun encoder_worker.py FOLDER OUT`.

Rank 0 saves, for every encoder, by how much any of its hidden states differs when it is split over the ranks.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import transformers
from dcompile.facts.folder import component_of_folder
from dcompile.layout.splits import Split
from dcompile.lower.program import tensor_layout
from dcompile.runtime import tensor_parallel
from dcompile.runtime.ranks import build_mesh

sys.path.insert(0, str(Path(__file__).parents[1]))

from oracle.zoo.parts import randomise

SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "head_dim": 8, "vocab_size": 60}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2}
TOKENS, PADDED = 10, 4
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "Gemma2Model": {"sliding_window": 6, "query_pre_attn_scalar": 8},
    "LlamaModel": {},
    "LlamaForCausalLM": {"tie_word_embeddings": False},
    "Qwen3Model": {},
    "Qwen3ForCausalLM": {"tie_word_embeddings": True},
}
"""Encoders of Sana and Lumina 2, HunyuanVideo, HiDream, FLUX.2 klein, and Z-Image, with their own settings."""


def build(name: str) -> Any:
    """A tiny encoder with random weights."""
    model_class = getattr(transformers, name)
    config = model_class.config_class(**SIZES, **HEADS, **CONFIGURATIONS[name], pad_token_id=0)
    model = model_class(config).eval()
    randomise(model, 3)
    return model


def hidden_states(model: Any) -> torch.Tensor:
    """All of them, (layers + 1, 2, tokens, features); the second text is padded."""
    tokens = torch.randint(1, SIZES["vocab_size"], (2, TOKENS), generator=torch.Generator().manual_seed(1))
    mask = torch.ones(2, TOKENS, dtype=torch.long)
    mask[1, PADDED:] = 0
    states = model(input_ids=tokens, attention_mask=mask, output_hidden_states=True, use_cache=False).hidden_states
    return torch.stack([state[mask.bool()] for state in states])


def difference(name: str, folder: Path) -> float:
    """Between the saved encoder, split as the compiler lowers it, and the whole one."""
    whole = build(name)
    if dist.get_rank() == 0:
        whole.save_pretrained(folder)
    dist.barrier()
    layout = tensor_layout(component_of_folder(folder, name, "transformers"), Split(tensor=dist.get_world_size()))
    split = type(whole).from_pretrained(folder)
    mesh = build_mesh("cpu", {"tensor": dist.get_world_size()})["tensor"]
    tensor_parallel.shard_in_memory(split, layout, mesh, torch.device("cpu"))
    return (hidden_states(split) - hidden_states(whole)).abs().max().item()


def main() -> None:
    """Calls every encoder whole and split."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    with torch.inference_mode():
        found = {name: difference(name, Path(sys.argv[1]) / name) for name in CONFIGURATIONS}
    if dist.get_rank() == 0:
        Path(sys.argv[2]).write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
