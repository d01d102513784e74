"""How far the run is, from one rank, on stderr: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class Loading:
    """Says every while that loading is not over yet: a network disk can take minutes; silent on every rank but one."""

    FIRST_SECONDS, THEN_SECONDS = 20.0, 30.0

    def __init__(self, style: str, weight_bytes: int, is_speaker: bool) -> None:
        """`weight_bytes` is what this rank will hold."""
        self._speaks, self._size = is_speaker and style != "none", weight_bytes
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._wait, daemon=True)

    def __enter__(self) -> Loading:
        if self._speaks:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._speaks:
            self._thread.join()

    def _wait(self) -> None:
        started, pause = time.monotonic(), self.FIRST_SECONDS
        while not self._over.wait(pause):
            seconds = time.monotonic() - started
            print(f"dcompile: loading {self._size / 2**30:.1f} GiB, {seconds:.0f} s", file=sys.stderr, flush=True)
            pause = self.THEN_SECONDS


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

    def step(self, of: int | None = None) -> None:
        """A denoising step is done, `of` so many: fewer than asked for where the pipeline starts from a picture."""
        if self._bar is not None:
            if of is not None:
                self._bar.update(self._steps, total=of)
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
