"""The Python interface: `check`, `compile`, `load` and `end`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NoReturn

from dcompile.core.diagnostics import Diagnostic, Severity
from dcompile.core.ending import end_rank
from dcompile.driver import Compiled, compile_recipe
from dcompile.plan.types import Plan


class RecipeError(ValueError):
    """A recipe that cannot be compiled; `diagnostics` says why, place by place."""

    def __init__(self, file: Path, diagnostics: tuple[Diagnostic, ...]) -> None:
        """Keep the diagnostics; the text names the first error."""
        self.diagnostics = diagnostics
        errors = [found for found in diagnostics if found.severity is Severity.ERROR]
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        super().__init__(f"{file}: {errors[0].code} {errors[0].message}{more}")


def check(path: str | Path) -> tuple[Diagnostic, ...]:
    """Every diagnostic of a recipe; nothing is written and torch is not imported."""
    return compile_recipe(Path(path)).diagnostics


def _compiled(path: str | Path) -> Compiled:
    compiled = compile_recipe(Path(path))
    if not compiled.is_valid:
        raise RecipeError(Path(path), compiled.diagnostics)
    return compiled


def compile(path: str | Path) -> Plan:
    """The plan of a recipe.

    Raises:
        RecipeError: where the recipe has an error.
    """
    plan = _compiled(path).plan
    if plan is None:
        raise AssertionError("a valid recipe has a plan")
    return plan


def load(path: str | Path) -> Any:
    """A diffusers pipeline that is already sharded.

    Inside a job of torchrun or srun, or a process group that exists, it joins that job, whose world must be the plan's;
    for a plan of one rank it starts a group of one process otherwise. Every rank of a job has to call it, and then the
    pipeline, with the same arguments.

    Raises:
        RecipeError: where the recipe has an error.
    """
    document = _compiled(path).plan_json
    if document is None:
        raise AssertionError("a valid recipe has a plan")
    from dcompile.runtime import quiet

    with quiet.while_loading():
        from dcompile.runtime.load import open_pipeline

        return open_pipeline(document, Path(path).resolve().parent)


def end(code: int = 0) -> NoReturn:
    """Ends a script's process: leaves the job, and ends at once with what was printed, as `dcompile run` does.

    To be the last line of a script under torchrun or srun. The interpreter's own end may meet a thread of the process
    group, which aborts the process when all is done (`core/ending.py`); `destroy_process_group` does not end such
    threads. Files that are still open are not written to their end, and no handler of `atexit` is called.

    Args:
        code: the exit code.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_initialized():
        distributed.destroy_process_group()
    end_rank(code)
