"""Attention backends: each processor gets its own, explicitly and last; nothing follows the process-wide default."""

from __future__ import annotations

import sys
from typing import Any

from dcompile.runtime import library
from dcompile.runtime.errors import RunError


def check_before_loading(program: dict[str, Any]) -> None:
    """Finds in a moment what would fail after minutes of loading.

    Raises:
        RunError: where a backend's package is missing, or a sequence is split without Python's assertions, by which
            diffusers refuses what the ranks would otherwise hang on.
    """
    for component in program["components"].values():
        if component.get("context") and sys.flags.optimize:
            raise RunError("a split sequence needs Python's assertions: start without `-O` and PYTHONOPTIMIZE")
        name = component.get("attention")
        if not name:
            continue
        try:
            library.check_attention_backend(name)
        except ValueError:
            raise RunError(f"the diffusers that is installed has no attention backend `{name}`") from None
        except RuntimeError as error:
            raise RunError(f"attention backend `{name}` cannot be used: {_first_line(error)}") from error


def set_backends(pipeline: Any, program: dict[str, Any]) -> None:
    """Gives every processor of a component its backend, and the process the native one as default.

    Raises:
        RunError: where a component that the plan splits would attend without it.
    """
    for name, component in program["components"].items():
        if component["omit"] or not component["attention"]:
            continue
        model = getattr(pipeline, name)
        model.set_attention_backend(component["attention"])
        processors = library.processors(model)
        set_to = {library.backend_of(processor) for processor in processors}
        if processors and set_to != {component["attention"]}:
            raise RunError(f"`{name}` did not take the attention backend `{component['attention']}`")
        if component["context"] and not any(library.takes_part(processor) for processor in processors):
            raise RunError(f"the attention of `{name}` does not take part in the split of its sequence")
    library.use_native_attention_by_default()


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
