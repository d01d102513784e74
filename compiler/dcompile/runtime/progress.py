"""How far the run is, from one rank, on stderr: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class Reporter:
    """Counts pictures and steps; silent on every rank but one."""

    def __init__(self, style: str, pictures: int, skipped: int, is_speaker: bool) -> None:
        terminal = sys.stderr.isatty() if style == "auto" else style == "bar"
        self.done, self._total = 0, pictures
        self._speaks = is_speaker and style != "none"
        self._bar: Progress | None = None
        self._pictures: Any = None
        self._steps: Any = None
        if self._speaks and skipped:
            self._line(f"{skipped} of {pictures + skipped} pictures are complete already")
        if self._speaks and terminal:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
            )
            self._pictures = self._bar.add_task("pictures", total=pictures)
            self._steps = self._bar.add_task("steps", total=None)

    def __enter__(self) -> Reporter:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def start(self, steps: int | None) -> None:
        """A picture begins."""
        if self._bar is not None:
            self._bar.reset(self._steps, total=steps)

    def step(self) -> None:
        """A denoising step is done."""
        if self._bar is not None:
            self._bar.advance(self._steps)

    def finish(self, done: int, name: str, seconds: float) -> None:
        """A picture is written; `done` counts those of all replicas."""
        self.done = done
        if self._bar is not None:
            self._bar.update(self._pictures, completed=done)
        elif self._speaks:
            self._line(f"{done} of {self._total} pictures, {name} in {seconds:.1f} s")

    def close(self) -> None:
        """All replicas are through."""
        if self._bar is not None:
            self._bar.update(self._pictures, completed=self._total)
        elif self._speaks and self.done < self._total:
            self._line(f"{self._total} of {self._total} pictures")

    def _line(self, text: str) -> None:
        print(f"dcompile: {text}", file=sys.stderr, flush=True)
