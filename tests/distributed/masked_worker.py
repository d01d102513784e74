"""One rank of a test of padded text: `torchrun masked_worker.py OUT MODE...`, a mode such as `1x4-uneven`:
ring by Ulysses.

Rank 0 saves, for every mode, by how much a tiny Qwen-Image transformer whose sequence is split differs from the whole
one, or the error.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from dcompile.core.ending import end_rank
from dcompile.runtime import context_parallel
from dcompile.runtime.ranks import build_mesh
from diffusers import QwenImageTransformer2DModel

sys.path.insert(0, str(Path(__file__).parents[1]))

from oracle.zoo.parts import randomise

SIDE, TEXT, PADDED = 6, 18, 11
"""36 image tokens, and texts of 18 and 11 tokens in one call."""


def build() -> QwenImageTransformer2DModel:
    """Two blocks with twelve heads."""
    model = QwenImageTransformer2DModel(
        patch_size=2,
        in_channels=16,
        out_channels=4,
        num_layers=2,
        attention_head_dim=16,
        num_attention_heads=12,
        joint_attention_dim=16,
        axes_dims_rope=(8, 4, 4),
    )
    randomise(model, 0)
    return model


def arguments() -> dict[str, Any]:
    """A call with a padded text."""
    generator = torch.Generator().manual_seed(1)
    mask = torch.ones(2, TEXT, dtype=torch.bool)
    mask[1, PADDED:] = False
    return {
        "hidden_states": torch.randn(2, SIDE * SIDE, 16, generator=generator),
        "encoder_hidden_states": torch.randn(2, TEXT, 16, generator=generator),
        "encoder_hidden_states_mask": mask,
        "timestep": torch.tensor([0.5, 0.5]),
        "img_shapes": [[(1, SIDE, SIDE)]] * 2,
        "return_dict": False,
    }


def split(mode: str, expected: torch.Tensor) -> dict[str, Any]:
    """What the call gives when the sequence is split."""
    degrees, _, how = mode.partition("-")
    ring, ulysses = map(int, degrees.split("x"))
    model = build()
    mesh = build_mesh("cpu", {"ring": ring, "ulysses": ulysses})
    layout = {"ring": ring, "ulysses": ulysses, "uneven": how == "uneven"}
    context_parallel.apply(model, layout, mesh, torch.device("cpu"))
    model.set_attention_backend("native")
    try:
        return {"difference": (model(**arguments())[0] - expected).abs().max().item()}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def main() -> None:
    """Calls the model whole, and split in every mode, with the same padded batch."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    with torch.inference_mode():
        expected = build()(**arguments())[0]
        found = {mode: split(mode, expected) for mode in sys.argv[2:]}
    if dist.get_rank() == 0:
        Path(sys.argv[1]).write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    end_rank(0)
