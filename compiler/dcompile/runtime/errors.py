"""What can go wrong while a plan runs, as one sentence for the user, and which rank's error was the first one."""

from __future__ import annotations

import errno
import json
import os
import time
import traceback as tracebacks
from dataclasses import asdict, dataclass
from pathlib import Path

# What a rank raises because another one has died: never the cause, so never what the user reads first.
_ECHOES = (
    "connection closed by peer",
    "connection reset by peer",
    "connection refused",
    "connection was likely closed",
    "broken pipe",
    "timed out",
    "failed to connect",
    "remote process exited",
    "nccl communicator was aborted",
    "socket timeout",
    "failed to recv",
    "failed to send",
)


class RunError(Exception):
    """Something that the user or the machine did; its text is one sentence."""


class EchoError(RunError):
    """An error of this rank that came after another rank's own: the user reads that one."""


@dataclass(frozen=True)
class RankError:
    """What one rank left behind when it failed."""

    rank: int
    seconds: float
    sentence: str
    traceback: str
    is_echo: bool


def sentence_for(error: BaseException) -> str:
    """One sentence about an exception."""
    if isinstance(error, RunError):
        return str(error)
    if isinstance(error, OSError) and error.errno is not None:
        return _os_sentence(error)
    if isinstance(error, MemoryError):
        return "this process has no memory left"
    text = " ".join(str(error).split())
    if type(error).__name__ == "OutOfMemoryError":
        return f"the device has no memory left: {text}"
    if type(error).__name__ == "SafetensorError":
        return f"a weight file is broken: {text}"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _os_sentence(error: OSError) -> str:
    place = f" `{error.filename}`" if error.filename else ""
    if error.errno == errno.ENOSPC:
        return f"the disk is full: cannot write{place}"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"no permission for{place or ' a file'}: {os.strerror(error.errno)}"
    if error.errno == errno.ENOENT:
        return f"the file{place} does not exist"
    return f"{os.strerror(error.errno or 0)}{':' if place else ''}{place}"


def is_echo(error: BaseException) -> bool:
    """Whether an exception says no more than that another rank is gone."""
    if isinstance(error, EchoError):
        return True
    if isinstance(error, RunError):
        return False
    text = f"{type(error).__name__} {error}".lower()
    return any(echo in text for echo in _ECHOES)


def record(folder: Path | None, rank: int, error: BaseException) -> RankError:
    """Writes a rank's error into the run's folder, whole or not at all."""
    text = "".join(tracebacks.format_exception(type(error), error, error.__traceback__))
    left = RankError(rank, time.time(), sentence_for(error), text, is_echo(error))
    if folder is not None:
        draft = folder / f".rank{rank}.part"
        draft.write_text(json.dumps(asdict(left)), encoding="utf-8")
        os.replace(draft, folder / f"rank{rank}.error.json")
    return left


def first_error(folder: Path) -> RankError | None:
    """The error that came first, echoes of other ranks' deaths last."""
    left = [RankError(**json.loads(file.read_text(encoding="utf-8"))) for file in folder.glob("rank*.error.json")]
    return min(left, key=lambda error: (error.is_echo, error.seconds), default=None)
