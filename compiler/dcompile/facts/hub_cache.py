"""Where the hub's cache on this machine keeps a model. Only looks at folders: no network, no huggingface_hub."""

from __future__ import annotations

import os
import re
from pathlib import Path

_REPOSITORY = re.compile("[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")
_REVISION = re.compile("[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*")


def cache_folder() -> Path:
    """The hub's cache: HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME/hub, or the usual place below the home folder."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if os.environ.get(name):
            return Path(os.environ[name]).expanduser()
    if os.environ.get("HF_HOME"):
        return Path(os.environ["HF_HOME"]).expanduser() / "hub"
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "huggingface" / "hub"


def _repository(model_id: str) -> Path:
    return cache_folder() / f"models--{model_id.replace('/', '--')}"


def revisions_of(model_id: str) -> tuple[str, ...]:
    """The branches and tags of a model that the cache has files of, in the order of the alphabet."""
    if not _REPOSITORY.fullmatch(model_id):
        return ()
    try:
        names = sorted(os.listdir(_repository(model_id) / "refs"))
    except OSError:
        return ()
    return tuple(name for name in names if snapshot_of(model_id, name) is not None)


def snapshot_of(model_id: str, revision: str | None = None) -> Path | None:
    """The folder of a model's files in the cache; None where there is none.

    Args:
        model_id: `owner/name`.
        revision: a branch, tag or commit; `main` where it is not given.
    """
    revision = revision or "main"
    if not _REPOSITORY.fullmatch(model_id) or not _REVISION.fullmatch(revision) or ".." in revision:
        return None
    repository = _repository(model_id)
    try:
        commit = (repository / "refs" / revision).read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        commit = revision
    if not re.fullmatch("[A-Za-z0-9_.-]+", commit) or commit in (".", ".."):
        return None
    snapshot = repository / "snapshots" / commit
    return snapshot if snapshot.is_dir() else None
