"""Context parallelism: diffusers' own hooks on our mesh, and what a CPU lacks for them."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from diffusers import ContextParallelConfig, ParallelConfig
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from dcompile.runtime import library
from dcompile.runtime.errors import RunError


def apply(model: nn.Module, layout: dict[str, Any], mesh: DeviceMesh, device: torch.device) -> None:
    """Splits the sequence of `model` over the mesh's `ring` and `ulysses` axes."""
    plan = library.context_plan(model)
    if plan is None:
        raise RunError(f"{type(model).__name__} has no context plan in the diffusers that is installed")
    uneven, ring, ulysses = layout["uneven"], layout["ring"], layout["ulysses"]
    context = ContextParallelConfig(
        ring_degree=ring,
        ulysses_degree=ulysses,
        ulysses_anything=uneven and ulysses > 1,
        ring_anything=uneven and ring > 1,
        mesh=mesh,
    )
    config = ParallelConfig(context_parallel_config=context)
    config.setup(dist.get_rank(), dist.get_world_size(), device, mesh=mesh)
    if device.type == "cpu":
        _serve_cpu()
    library.set_parallel_config(model, config)
    library.apply_context_parallel(model, context, plan)


def _serve_cpu() -> None:
    """Fills the two gaps of the CPU: no log-sum-exp from native attention, no uneven all-gather in gloo."""
    library.replace_native_forward(forward_with_log_sum_exp)
    library.replace_uneven_gather(_all_gather_uneven)


def forward_with_log_sum_exp(
    ctx: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    _save_ctx: bool = True,
    _parallel_config: Any = None,
) -> Any:
    """diffusers' native forward, with the log-sum-exp that the ring needs, shaped (batch, tokens, heads)."""
    if not return_lse:
        return library.native_forward(
            ctx, query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, False, _save_ctx
        )
    query, key, value = (tensor.permute(0, 2, 1, 3) for tensor in (query, key, value))
    out, log_sum_exp = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale
    )
    return out.permute(0, 2, 1, 3).contiguous(), log_sum_exp.permute(0, 2, 1).contiguous()


def _all_gather_uneven(tensor: torch.Tensor, dim: int, group: Any) -> torch.Tensor:
    """All-gather of shards of different length: pad to the longest, gather, trim."""
    tensor = tensor.contiguous()
    lengths = library.gather_sizes(tensor.shape[dim], group)
    shape = list(tensor.shape)
    shape[dim] = max(lengths)
    padded = tensor.new_zeros(shape)
    padded.narrow(dim, 0, tensor.shape[dim]).copy_(tensor)
    pieces = [torch.empty_like(padded) for _ in lengths]
    dist.all_gather(pieces, padded, group=group)
    trimmed = [piece.narrow(dim, 0, length) for piece, length in zip(pieces, lengths, strict=True)]
    return torch.cat(trimmed, dim=dim)
