"""dcompile: check, plan and run diffusion pipelines on more than one device.

    >>> import dcompile
    >>> dcompile.check("recipes/quickstart.yaml")   # diagnostics
    >>> plan = dcompile.compile("recipes/quickstart.yaml")
    >>> pipeline = dcompile.load("recipes/quickstart.yaml")   # inside each rank
    >>> dcompile.end()   # the last line of a script under torchrun

The functions are loaded when they are used, so that `import dcompile` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dcompile.api import RecipeError as RecipeError
    from dcompile.api import check as check
    from dcompile.api import compile as compile
    from dcompile.api import end as end
    from dcompile.api import load as load

__version__ = "0.1.0"
__all__ = ["RecipeError", "check", "compile", "end", "load"]


def __getattr__(name: str) -> object:
    if name in __all__:
        from dcompile import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
