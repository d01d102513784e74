"""What one device does a second: a matrix product, an attention, a copy; and what its host takes for a block.

Each is repeated on the device, waiting once for several in a row, so that the wait itself counts little; the fastest
repeat is kept, for what disturbs one only lengthens it. Problems grow until one takes long enough to be measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

LONG_ENOUGH = 0.004
"""Seconds of one problem from which on a larger one runs no faster."""
REPEATS = 5
HEADS, HEAD_WIDTH = 8, 128
"""Of the attention: the head width of FLUX.1, Wan and HunyuanVideo."""


def seconds_of(call: Callable[[], Any], synchronize: Callable[[], None], least: float = 2 * LONG_ENOUGH) -> float:
    """Seconds of one call: of the fastest repeat, each of as many calls as take `least` seconds.

    Args:
        call: what is timed; warmed up here.
        synchronize: waits for the device.
        least: seconds that a repeat takes at least.
    """
    call()
    synchronize()
    start = time.perf_counter()
    call()
    synchronize()
    once = max(time.perf_counter() - start, 1e-7)
    count = max(1, min(10_000, int(least / once)))
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        for _ in range(count):
            call()
        synchronize()
        times.append((time.perf_counter() - start) / count)
    return min(times)


def measure_speed(device: torch.device, dtype: torch.dtype) -> dict[str, float]:
    """The keys of a recipe's `speeds` that can be measured on a device, in operations, bytes and seconds.

    Raises:
        RuntimeError: where the device cannot do the arithmetic at all.
    """
    synchronize = _synchronize(device)
    with torch.inference_mode():
        found = {
            "matmul_flops_per_second": _best(_products(device, dtype), synchronize),
            "attention_flops_per_second": _best(_attentions(device, dtype), synchronize),
            "memory_bytes_per_second": _best(_copies(device), synchronize),
        }
        host = _host_seconds_per_block(dtype) if device.type == "cpu" else None
    found = {name: rate for name, rate in found.items() if rate > 0}  # 0: not even the smallest problem had room
    return found if host is None else {**found, "host_seconds_per_block": host}


def _synchronize(device: torch.device) -> Callable[[], None]:
    if device.type == "cpu":
        return lambda: None
    return lambda: torch.accelerator.synchronize(device)


Problem = tuple[Callable[[], Any], float]
"""What is run, and how much it is: operations or bytes."""


def _best(problems: Iterator[Problem], synchronize: Callable[[], None]) -> float:
    """The best rate over problems that grow, until one takes long enough or the next has no room."""
    best = 0.0
    while True:
        try:
            found = next(problems, None)
            if found is None:
                return best
            call, amount = found
            seconds = seconds_of(call, synchronize)
        except torch.OutOfMemoryError:
            return best
        best = max(best, amount / seconds)
        if seconds >= LONG_ENOUGH:
            return best


def _products(device: torch.device, dtype: torch.dtype) -> Iterator[Problem]:
    """Square matrix products, of 2 * side**3 operations."""
    for side in (256, 512, 1024, 2048, 4096, 8192, 16384):
        a = torch.randn(side, side, device=device, dtype=dtype)
        b = torch.randn(side, side, device=device, dtype=dtype)
        out = torch.empty(side, side, device=device, dtype=dtype)
        yield partial(torch.mm, a, b, out=out), 2.0 * side**3


def _attentions(device: torch.device, dtype: torch.dtype) -> Iterator[Problem]:
    """Attention of a sequence on itself, of 4 * tokens**2 * width operations, by torch's own kernels."""
    for tokens in (256, 512, 1024, 2048, 4096, 8192, 16384, 32768):
        query, key, value = (torch.randn(1, HEADS, tokens, HEAD_WIDTH, device=device, dtype=dtype) for _ in range(3))
        attend = torch.nn.functional.scaled_dot_product_attention
        yield partial(attend, query, key, value), 4.0 * tokens**2 * HEADS * HEAD_WIDTH


def _copies(device: torch.device) -> Iterator[Problem]:
    """A copy within the device's memory, read and written; larger than what caches hold."""
    for mebibytes in (256, 1024) if device.type == "cpu" else (256, 1024, 2048):
        source = torch.zeros(mebibytes * 2**20, device=device, dtype=torch.uint8)
        target = torch.empty_like(source)
        yield partial(target.copy_, source), 2.0 * source.numel()


def _host_seconds_per_block(dtype: torch.dtype) -> float | None:
    """What one block takes on a CPU where its tensors are as good as empty, so that Python is all there is.

    A FLUX.1 transformer of a few dozen numbers a token, in two lengths with two stacks as in FLUX.1 (19 and 38); the
    difference is that of the blocks. None where diffusers is not installed. On an accelerator the table's constant
    holds, which was fitted together with what a step of several ranks does besides.
    """
    try:
        from diffusers import FluxTransformer2DModel
    except ImportError:
        return None

    def seconds(layers: int) -> float:
        model = FluxTransformer2DModel(
            patch_size=1,
            in_channels=4,
            num_layers=layers,
            num_single_layers=2 * layers,
            attention_head_dim=16,
            num_attention_heads=2,
            joint_attention_dim=8,
            pooled_projection_dim=8,
            axes_dims_rope=(4, 6, 6),
        )
        torch.nn.Module.to(model, dtype)
        inputs = {
            "hidden_states": torch.randn(1, 16, 4, dtype=dtype),
            "encoder_hidden_states": torch.randn(1, 8, 8, dtype=dtype),
            "pooled_projections": torch.randn(1, 8, dtype=dtype),
            "timestep": torch.ones(1, dtype=dtype),
            "img_ids": torch.zeros(16, 3),
            "txt_ids": torch.zeros(8, 3),
        }
        return seconds_of(lambda: model(**inputs, return_dict=False), lambda: None, least=0.02)

    short, long = seconds(1), seconds(3)
    return max(0.0, long - short) / 6 or None
