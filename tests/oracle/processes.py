"""Forks ranks from a process that has imported everything once: a job costs about a second.

No rank outlives its job: all are ended when the job is, or with this process; a rank that fails ends the job, and
so does the time limit.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import selectors
import signal
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from dcompile.runtime.errors import is_echo

ECHO_SECONDS = 1.0
"""How long the others may still answer after a rank has failed because of one of them."""


@dataclass(frozen=True)
class Answer:
    """What one rank came back with: a value, or an error.

    Attributes:
        error: one sentence.
        traceback: for the person who looks into it.
        is_echo: whether the error is only about another rank that is gone.
    """

    value: Any = None
    error: str | None = None
    traceback: str = ""
    is_echo: bool = False


DIED = Answer(error="the process died without a word")
HUNG = Answer(error="hangs: no answer within the time limit")
ENDED = Answer(error="was ended because another rank failed", is_echo=True)


def run(count: int, work: Callable[[int], Any], limit_seconds: float) -> list[Answer]:
    """Calls `work(rank)` in `count` forked processes; an answer for each, in order of rank."""
    reads, processes = [], []
    try:
        for rank in range(count):
            # One pipe at a time: a rank must not hold the end into which another one writes.
            read, write = os.pipe()
            reads.append(read)
            process = os.fork()
            if process == 0:
                _child(rank, work, write)
            processes.append(process)
            os.close(write)
        return _collect(reads, limit_seconds)
    finally:
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
        for read in reads:
            os.close(read)


def _collect(reads: list[int], limit_seconds: float) -> list[Answer]:
    answers: list[Answer | None] = [None] * len(reads)
    received = [b""] * len(reads)
    deadline, failed = time.monotonic() + limit_seconds, False
    with selectors.DefaultSelector() as selector:
        for rank, read in enumerate(reads):
            selector.register(read, selectors.EVENT_READ, rank)
        while None in answers and time.monotonic() < deadline:
            for key, _ in selector.select(max(0.0, deadline - time.monotonic())):
                rank = key.data
                data = os.read(key.fd, 1 << 20)
                received[rank] += data
                if data:
                    continue
                selector.unregister(key.fd)
                whole = received[rank]
                answer = answers[rank] = (
                    pickle.loads(whole) if whole else Answer(error="the process died without a word")
                )
                if answer.error is not None and not failed:
                    failed = True
                    deadline = min(deadline, time.monotonic() + (ECHO_SECONDS if answer.is_echo else 0.0))
    return [answer or (ENDED if failed else HUNG) for answer in answers]


def _child(rank: int, work: Callable[[int], Any], write: int) -> None:
    """Runs the work, writes the answer and leaves without the interpreter's own end."""
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        try:
            answer = Answer(value=work(rank))
        except BaseException as error:
            text = " ".join(f"{type(error).__name__}: {error}".split())
            echo = isinstance(error, Exception) and is_echo(error)
            answer = Answer(error=text[:500], traceback=traceback.format_exc(), is_echo=echo)
        with os.fdopen(write, "wb") as stream:
            stream.write(pickle.dumps(answer))
        # Its sockets stay open until all have answered, so that nobody sees a peer that has merely finished.
        time.sleep(3600)
    finally:
        os._exit(0)
