"""What a random recipe needs to know about a tiny pipeline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


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
        args: what `run.args` always holds.
        arguments: what it may hold beside.
        lora_targets: names of the denoiser's layers that an adapter changes.
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
    arguments: tuple[dict[str, Any], ...] = ()
