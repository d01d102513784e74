"""What a class can do that no data file covers: asked once, on the meta device, in a process of its own.

The answer is kept by the class, its config and the versions of torch and diffusers. Only classes of diffusers itself
are asked: a repository's own code is never run to check a recipe.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from dcompile.core.files import write_whole

_SECONDS = 120
"""A probe takes about fifteen seconds, nearly all of them for importing diffusers."""
_KEYS: dict[str, tuple[type, ...]] = {
    "library": (str,),
    "tensor_plan": (list,),
    "sizes": (dict,),
    "context_plan": (bool,),
    "context_splits_text": (bool,),
    "heads": (str, type(None)),
    "no_split": (list,),
    "repeated_blocks": (bool,),
    "float32": (list,),
    "unquantized": (dict, type(None)),
    "blocks": (list, type(None)),
    "buffers": (list,),
    "config_defaults": (dict,),
}


def cache_folder() -> Path:
    """Where answers are kept: `dcompile/probe` in XDG_CACHE_HOME, or in `~/.cache`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "dcompile" / "probe"


def probe_class(class_name: str, config: dict[str, Any]) -> dict[str, Any] | None:
    """An entry like those of `models/classes.json`; None where the class cannot be asked.

    Args:
        class_name: a class of diffusers.
        config: its `config.json`.
    """
    try:
        versions = {name: version(name) for name in ("diffusers", "torch", "transformers")}
    except PackageNotFoundError:
        return None
    question = json.dumps({"class": class_name, "config": config, "versions": versions}, sort_keys=True)
    kept = cache_folder() / f"{hashlib.sha256(question.encode()).hexdigest()}.json"
    try:
        return _answer(kept.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        pass  # not asked yet, or damaged
    text = _ask(question)
    if text is None:
        return None
    _keep(kept, text)
    return _answer(text)


def _ask(question: str) -> str | None:
    """What the process answers; None where it fails or takes too long."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    try:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "dcompile.facts.generate_probe"],
            input=question,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            env=environment,
            check=False,
        )
        if done.returncode == 0:
            _answer(done.stdout)
            return done.stdout
    except (subprocess.TimeoutExpired, OSError, ValueError):
        return None
    return None


def _answer(text: str) -> dict[str, Any] | None:
    """The entry in an answer; None where diffusers has no such class.

    Raises:
        ValueError: where it is no answer.
    """
    found = json.loads(text)
    if found is None:
        return None
    if not isinstance(found, dict) or found.keys() != _KEYS.keys():
        raise ValueError("no entry")
    if not all(isinstance(found[key], kind) for key, kind in _KEYS.items()):
        raise ValueError("no entry")
    return found


def _keep(kept: Path, text: str) -> None:
    """Write the answer whole; a cache that cannot be written only costs the next probe."""
    try:
        write_whole(kept, text)
    except OSError:
        return
