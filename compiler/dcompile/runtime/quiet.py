"""Keeps the libraries' own bars and notes off the screen; errors still come through as exceptions.

Has to be called before diffusers is imported: transformers notes what is not installed at that time.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

_TALKATIVE = ("torchao", "torch.utils._pytree")
"""Loggers that speak of kernels for other machines, and of how torchao registers its enums."""


def for_good() -> None:
    """In a rank, which is ours."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("DIFFUSERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    warnings.filterwarnings("ignore", category=FutureWarning)
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.ERROR)
    import diffusers
    import transformers

    diffusers.utils.logging.disable_progress_bar()
    transformers.utils.logging.disable_progress_bar()


@contextmanager
def while_loading() -> Iterator[None]:
    """In a script, whose own settings are back afterwards; one that asked for more than warnings gets them."""
    import diffusers
    import transformers

    both = (diffusers.utils.logging, transformers.utils.logging)
    others = {name: logging.getLogger(name).level for name in _TALKATIVE}
    for name in others:
        logging.getLogger(name).setLevel(logging.ERROR)
    levels = [library.get_verbosity() for library in both]
    bars = [library.is_progress_bar_enabled() for library in both]
    for library, level in zip(both, levels, strict=True):
        library.set_verbosity(max(level, logging.ERROR) if level >= logging.WARNING else level)
        library.disable_progress_bar()
    try:
        yield
    finally:
        for name, level in others.items():
            logging.getLogger(name).setLevel(level)
        for library, level, bar in zip(both, levels, bars, strict=True):
            library.set_verbosity(level)
            if bar:
                library.enable_progress_bar()
