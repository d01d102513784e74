"""What is installed here against what a plan needs. Looks at metadata only: no library is imported."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from dcompile import __version__
from dcompile.core.diagnostics import Diagnostic, Severity
from dcompile.core.versions import same_minor, satisfies
from dcompile.facts.schedulers import missing_libraries
from dcompile.facts.uses import use_of
from dcompile.layout.attention import attention_backends

EXTRA = {
    "torch": "run",
    "diffusers": "run",
    "transformers": "run",
    "accelerate": "run",
    "safetensors": "run",
    "PIL": "run",
    "peft": "lora",
    "torchao": "quantize",
    "bitsandbytes": "quantize",
    "imageio_ffmpeg": "video",
    "ftfy": "video",
}
"""The extra that brings each module which a run imports."""

PROCESSES_PER_CORE = 4
LEAST_PROCESSES = 32
"""Processes that a CPU plan may start on any machine, and for each core of a larger one. Each imports torch and
the libraries, about 400 MiB: without a bound a typing error (`data: 2000`) takes the machine down."""


@lru_cache(maxsize=32)
def installed(name: str) -> str | None:
    """The version of a distribution that is installed here; None where it is not."""
    if name == "dcompile":
        return __version__
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def needed_modules(plan: Mapping[str, Any]) -> list[str]:
    """The modules that a run of a plan imports, in order."""
    program = plan["program"]
    needed = {name for name, extra in EXTRA.items() if extra == "run"}
    if program["pipeline"]["adapters"]:
        needed.add("peft")
    components = program["components"].values()
    needed |= {component["quantize"]["method"] for component in components if component.get("quantize")}
    needed |= {module for component in components if (module := _attention_module(component.get("attention")))}
    if program["output"]["format"] == "mp4":
        needed.add("imageio_ffmpeg")
    scheduler = program["pipeline"]["scheduler"]
    if scheduler is not None:
        needed |= set(missing_libraries(scheduler["class"], scheduler))
    use = use_of(program["pipeline"]["class"])
    needed |= set(use.modules) if use is not None else set()
    if program["run"]["call"].get("image_crf") == 0:
        needed.discard("av")  # LTX-2 compresses an input picture as a frame of its training was, unless told not to
    return sorted(needed)


def _attention_module(backend: str | None) -> str | None:
    """The module of a package that pip has, where an attention backend needs one."""
    package = attention_backends()[backend].package if backend in attention_backends() else None
    module = re.match(r"[\w-]+", package or "")
    return module[0].replace("-", "_") if module and module[0] != "flash-attn-3" else None


def missing_packages(plan: Mapping[str, Any]) -> list[str]:
    """What pip has to install before a plan runs here: our extras that are lacking, then packages of no extra."""
    return arguments_of_pip([name for name in needed_modules(plan) if importlib.util.find_spec(name) is None])


def arguments_of_pip(missing: list[str]) -> list[str]:
    """What `pip install` is given for modules that are missing; empty where none are."""
    extras = sorted({EXTRA[name] for name in missing if name in EXTRA})
    others = [name for name in missing if name not in EXTRA]
    where = _index_of_torch() if "torchvision" in others else ()
    return [f"dcompile[{','.join(extras)}]"] * bool(extras) + others + [*where]


def _index_of_torch() -> tuple[str, ...]:
    """The option with which pip finds packages for a torch that PyPI has not (`2.13.0+cpu`).

    Of another build, torchvision is installed and cannot be imported.
    """
    local = (installed("torch") or "").partition("+")[2]
    is_pytorchs = re.fullmatch(r"cpu|xpu|cu\d+|rocm[\d.]+", local)
    return ("--extra-index-url", f"https://download.pytorch.org/whl/{local}") if is_pytorchs else ()


def too_many_processes(plan: Mapping[str, Any]) -> str | None:
    """What is wrong with the number of processes that a plan for a CPU starts here; accelerators bound themselves."""
    program, cores = plan["program"], os.cpu_count() or 1
    most = max(LEAST_PROCESSES, PROCESSES_PER_CORE * cores)
    if program["device_kind"] != "cpu" or program["ranks_per_node"] <= most:
        return None
    starts = f"the plan starts {program['ranks_per_node']} processes, and this machine has {cores} core(s)"
    return f"{starts}: use {most} at most"


def other_versions(requires: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Libraries that are installed in another version than a plan is for: name, what it is for, what is here.

    Args:
        requires: a plan's `requires`: a specifier such as `>=0.42,<0.44`, or the version that the facts are of, from
            which another patch release does not differ.
    """
    found = []
    for name, wanted in requires.items():
        here = installed(name)
        if here is not None and not (satisfies(here, wanted) if wanted[:1] in "<>=!" else same_minor(here, wanted)):
            found.append((name, wanted, here))
    return found


def version_warnings(requires: Mapping[str, str], written: Mapping[str, str]) -> list[Diagnostic]:
    """DC315 for every library of another version; the verdict goes by the plan's, whatever is installed.

    Args:
        requires: a plan's `requires`.
        written: the recipe's own, which the findings point at.
    """
    return [
        Diagnostic(
            "DC315",
            Severity.WARNING,
            f"the verdict is for {name} {wanted}, and {here} is installed: `run` will refuse it",
            f"install {name} {wanted}, or write `requires` for the versions that the recipe is for",
            ("requires", name) if name in written else (),
        )
        for name, wanted, here in other_versions(requires)
    ]
