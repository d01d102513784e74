"""Which attention backends are legal for a device kind and a split: data from diffusers 0.42.1 (rules.md 2.3)."""

from __future__ import annotations

from dataclasses import dataclass

from dcompile.layout.splits import Split


@dataclass(frozen=True)
class Backend:
    """What a backend can do. `context` and `ring` say whether it runs there and is right."""

    kinds: tuple[str, ...]
    context: bool = False
    ring: bool = False


_ALL, _GPU = ("cpu", "cuda", "xpu"), ("cuda",)

ATTENTION_BACKENDS: dict[str, Backend] = {
    # Those that ship with torch first: the first legal one is chosen where the recipe is silent. The native CPU kernel
    # has a log-sum-exp, which our runtime asks it for (`runtime/context_parallel.py`); on CUDA `native` has none.
    "native": Backend(_ALL, context=True),
    "_native_cudnn": Backend(_GPU, context=True, ring=True),
    "_native_flash": Backend(("cuda", "xpu"), context=True, ring=True),
    "_native_efficient": Backend(_GPU),
    "_native_math": Backend(_ALL),
    "flash": Backend(_GPU, context=True, ring=True),
    "flash_hub": Backend(_GPU, context=True, ring=True),
    "flash_varlen": Backend(_GPU),
    "flash_varlen_hub": Backend(_GPU, context=True, ring=True),
    "_flash_3": Backend(_GPU),
    "_flash_3_hub": Backend(_GPU, context=True, ring=True),
    "_flash_3_varlen_hub": Backend(_GPU, context=True, ring=True),
    "sage": Backend(_GPU, context=True, ring=True),
    "sage_hub": Backend(_GPU, context=True, ring=True),
    "sage_varlen": Backend(_GPU),
    "flex": Backend(_GPU),
    "xformers": Backend(_GPU),
}


def legal_backends(kind: str, split: Split) -> tuple[str, ...]:
    """Backends that run and are right for a split on a kind of device, those of torch first."""
    return tuple(
        name
        for name, backend in ATTENTION_BACKENDS.items()
        if kind in backend.kinds
        and (split.context == 1 or backend.context)
        and (split.ring == 1 or backend.ring or (name == "native" and kind == "cpu"))
    )
