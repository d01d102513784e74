"""What a random recipe needs to know about a tiny pipeline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ULYSSES: dict[str, Any] = {"context": {"ulysses": 2}}
RING: dict[str, Any] = {"context": {"ring": 2}}
UNIFIED: dict[str, Any] = {"context": {"ulysses": 2, "ring": 2}}
UNEVEN: dict[str, Any] = {"context": {"ulysses": 2, "uneven": True}}
UNEVEN_RING: dict[str, Any] = {"context": {"ring": 3, "uneven": True}}


def offloaded(*names: str) -> dict[str, Any]:
    """A `parallel` section with components that come to their device only to be called."""
    return {"components": {name: {"offload": "model"} for name in names}}


@dataclass(frozen=True)
class Family:
    """One tiny pipeline.

    Attributes:
        save: writes the pipeline into a folder.
        parts: its components beside the denoisers, those with weights.
        sizes: heights and widths in pixels, some of which no degree divides.
        frames: lengths of a clip; (None,) for pictures.
        text_lengths: values of `max_sequence_length`; (None,) where the call has none.
        schedulers: `model.scheduler` sections beside none.
        guidance: pieces of the `run` section.
        strategies: those that its denoiser can run under; the others are tried less often.
        spare: components that may be left out.
        kept: those that one process loads all the same where it is told to leave them out.
        args: what `run.args` always holds.
        arguments: what it may hold beside.
        lora_targets: names of the denoiser's layers that an adapter changes; none where its pipeline loads no adapters.
        splits: `parallel` sections that split its denoiser over ranks, for `test_strategies.py`.
        encoder: the text encoder that is cut and offloaded there.
        encoder_degree: the degree of `tensor` that the encoder is split by, where its class has a plan.
        cuts_autoencoder: whether its autoencoder is cut there: one family a class.
        branches: the piece of the `run` section that has two branches made.
        text_length: the length of its text there.
        pads_without_mask: whether pictures of one call depend on each other where their prompts differ in length.
        noise: the scheduler with noise at each step; None where its pipeline can use none.
        images: names of input pictures that lie beside the pipelines (`parts.draw`).
        is_heavy: whether it takes seconds for a picture, so that CI asks it about its plans alone.
        plans: the `parallel` sections that it is asked about there, instead of what every family goes through.
    """

    name: str
    save: Callable[[Path], Path]
    parts: tuple[str, ...]
    sizes: tuple[tuple[int, int], ...]
    lora_targets: tuple[str, ...]
    denoisers: tuple[str, ...] = ("transformer",)
    frames: tuple[int | None, ...] = (None,)
    text_lengths: tuple[int | None, ...] = (None,)
    schedulers: tuple[dict[str, Any], ...] = ()
    guidance: tuple[dict[str, Any], ...] = ({},)
    args: dict[str, Any] = field(default_factory=dict)
    strategies: tuple[str, ...] = ("data", "map")
    spare: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    arguments: tuple[dict[str, Any], ...] = ()
    splits: tuple[dict[str, Any], ...] = ()
    encoder: str = "text_encoder"
    encoder_degree: int | None = None
    cuts_autoencoder: bool = False
    branches: dict[str, Any] = field(default_factory=lambda: {"true_cfg": 2.0, "negative_prompt": "green tree"})
    text_length: int = 12
    pads_without_mask: bool = False
    noise: dict[str, Any] | None = field(default_factory=lambda: {"stochastic_sampling": True})
    images: tuple[str, ...] = ()
    plans: tuple[dict[str, Any], ...] | None = None
    is_heavy: bool = False
