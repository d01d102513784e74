"""One recipe, its verdict, what the runtime does, and the outcome of the two."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from dcompile.core.diagnostics import Severity
from dcompile.core.plan_schema import plan_fault
from dcompile.driver import Compiled, compile_recipe
from dcompile.emit.plan_json import canonical_json, plan_document
from dcompile.facts.resolve import resolve
from dcompile.lower.program import lower
from dcompile.plan.build import build_plan
from dcompile.recipe.model import Component
from dcompile.rules.check import CheckedRecipe
from dcompile.rules.rule import subject_of

from . import plain, runtime

AGREED_YES = "agreed yes"
AGREED_NO = "agreed no"
REFUSED_BUT_RUNS = "REFUSED BUT RUNS"
ACCEPTED_BUT_FAILS = "ACCEPTED BUT FAILS OR DIFFERS"
NOT_ASKABLE = "not askable"
OUTCOMES = (AGREED_YES, AGREED_NO, REFUSED_BUT_RUNS, ACCEPTED_BUT_FAILS, NOT_ASKABLE)

TOLERANCE = 1e-4
LOW_PRECISION = 0.06
"""Share of the largest value by which bfloat16 or float16 may differ: sums are made in another order."""

ASKABLE = {
    "DC306": "an argument that the pipeline's call does not take",
    "DC308": "a size that the pipeline does not take",
    "DC309": "a text that is too long",
    "DC318": "no positions for so many tokens",
    "DC340": "dtypes of components",
    "DC341": "the scale of a merged adapter",
    "DC366": "a batch that the pipeline does not take",
    "DC401": "heads",
    "DC402": "image tokens",
    "DC403": "text tokens",
    "DC405": "no tensor plan",
    "DC406": "no context plan",
    "DC410": "attention backend",
    "DC411": "uneven with both degrees",
    "DC412": "weights",
    "DC413": "an adapter that is not merged",
    "DC414": "stochastic scheduler with a batch",
    "DC416": "a mask over the text under context",
    "DC417": "a context plan that a pipeline breaks",
    "DC461": "a cut component",
    "DC463": "tiles",
    "DC423": "a text of another length beside a picture's",
    "DC440": "no such scheduler",
    "DC441": "a setting of the scheduler",
    "DC442": "a scheduler that the pipeline cannot use",
    "DC443": "a component that takes no adapters",
    "DC444": "an adapter that was made for another component or model",
    "DC445": "quantized weights under tensor",
    "DC446": "a weight that is not there to be split",
    "DC447": "an argument that takes tensors",
}
"""The refusals that a run can confirm. The rest has nothing to run (an unknown name, a key that is not there yet, more
devices than there are, memory) or runs on a CPU and not on a GPU (a device map beside a split)."""
ONLY_A_FAILURE_TELLS = ("DC306", "DC423", "DC441", "DC442", "DC443", "DC444", "DC447")
"""Refusals of what would be ignored, or mean something else, on one process as well: a run that is the same says
nothing."""


def is_told_by_failure_only(code: str, recipe: dict[str, Any]) -> bool:
    """Whether a run that is the same says nothing against a refusal.

    The length of Qwen-Image's text is that of the prompts' tokens, which no rule can count: whether its mask survives
    uneven Ulysses (DC416), and whether a degree divides it (DC403), some prompts happen to fit. Nor can a rule count
    whether prompts of CogView and Kandinsky are padded to the same length (DC414).
    """
    padded = ("DC414",)
    happens = {"qwen-image": ("DC403", "DC416"), "cogview4": padded, "kandinsky5": padded, "kandinsky5-video": padded}
    # The noise of a picture's neighbour can hide in what low precision may differ by.
    if code == "DC414" and set(plain.dtypes_of(recipe).values()) != {"float32"}:
        return True
    return code in ONLY_A_FAILURE_TELLS or code in happens.get(recipe["model"]["path"], ())


@dataclass(frozen=True)
class Finding:
    """What came of one recipe. `difference` is the largest one between any rank and one process."""

    outcome: str
    codes: tuple[str, ...] = ()
    error: str | None = None
    difference: float | None = None
    ranks: int = 0
    traceback: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Plain data for the log."""
        return asdict(self)


def ask(recipe: dict[str, Any], root: Path, name: str = "recipe") -> Finding:
    """Compiles a recipe in `root`, runs it there (past a refusal, where a run can tell) and compares.

    Args:
        recipe: its plain values; paths are relative to `root`.
        root: the folder of the tiny pipelines.
        name: the stem of the recipe's file.
    """
    codes, plan = verdict(recipe, root, name)
    if plan is None:
        return Finding(NOT_ASKABLE, codes)
    return ask_plan(recipe, root, codes, plan)


def verdict(recipe: dict[str, Any], root: Path, name: str = "recipe") -> tuple[tuple[str, ...], dict[str, Any] | None]:
    """The codes of a recipe's errors, and the plan that is to be run; None where a run could not tell."""
    file = root / f"{name}.yaml"
    file.write_text(yaml.safe_dump(recipe, sort_keys=False), encoding="utf-8")
    compiled = compile_recipe(file)
    codes = tuple(sorted({found.code for found in compiled.diagnostics if found.severity is Severity.ERROR}))
    if compiled.is_valid and compiled.plan_json is not None:
        plan = compiled.plan_json
        fault = plan_fault(json.loads(canonical_json(plan)))
        if fault is not None:
            raise ValueError(f"the plan is not by its schema: {fault}")
    elif set(codes) <= ASKABLE.keys():
        plan = plan_despite_errors(compiled)
        if "DC410" in codes and not _takes_backends(recipe, plan):
            return codes, None
    else:
        return codes, None
    return codes, json.loads(canonical_json(plan))


def _takes_backends(recipe: dict[str, Any], plan: dict[str, Any]) -> bool:
    """Whether the backends that the recipe names got into the plan: layers without a choice get none."""
    named = {
        name: part["attention"] for name, part in recipe.get("components", {}).items() if part and "attention" in part
    }
    return all(plan["program"]["components"][name]["attention"] == backend for name, backend in named.items())


def digest(plan: dict[str, Any] | None) -> str:
    """What tells whether an answer still holds: the program that was run."""
    return hashlib.sha256(json.dumps(plan and plan["program"], sort_keys=True).encode()).hexdigest()[:16]


def ask_plan(recipe: dict[str, Any], root: Path, codes: tuple[str, ...], plan: dict[str, Any]) -> Finding:
    """Runs a plan and compares, for a recipe of which the verdict is known."""
    ranks = plan["program"]["ranks"]
    done = runtime.run_plan(plan, root)
    if done.error is not None:
        return Finding(AGREED_NO if codes else ACCEPTED_BUT_FAILS, codes, done.error, None, ranks, done.traceback)
    reference = plain.run_recipe(recipe, root)
    if reference.error is not None:
        outcome = AGREED_NO if codes else ACCEPTED_BUT_FAILS
        return Finding(outcome, codes, f"one process: {reference.error}", None, ranks, reference.traceback)
    difference, is_same = compare(done.ranks, reference.ranks[0], tolerances(plan, reference.ranks[0]))
    agreed, disagreed = (AGREED_NO, REFUSED_BUT_RUNS) if codes else (AGREED_YES, ACCEPTED_BUT_FAILS)
    outcome = disagreed if is_same == bool(codes) else agreed
    if outcome == REFUSED_BUT_RUNS and any(is_told_by_failure_only(code, recipe) for code in codes):
        outcome = NOT_ASKABLE
    return Finding(outcome, codes, None if is_same else "differs from one process", difference, ranks)


def plan_despite_errors(compiled: Compiled) -> dict[str, Any]:
    """The plan that a refused recipe would have had: the door of these tests past the rules."""
    if compiled.recipe is None:
        raise ValueError("a recipe that cannot be read has no plan")
    recipe = compiled.recipe
    facts, _ = resolve(recipe, compiled.file.resolve().parent)
    if facts is None:
        raise ValueError("a model that is not known has no plan")
    # Where no backend is legal there is none to choose, so the library's own default is asked.
    components = dict(recipe.components)
    for name in facts.model.denoisers:
        own = components.get(name) or Component()
        components[name] = own.model_copy(update={"attention": own.attention or "native"})
    recipe = recipe.model_copy(update={"components": components})
    plan = build_plan(CheckedRecipe(subject_of(recipe, facts)), recipe)
    return plan_document(plan, lower(plan), compiled.file.stem)


def compare(ranks: tuple[runtime.Made, ...], reference: runtime.Made, allowed: tuple[float, ...]) -> tuple[float, bool]:
    """The largest difference over all rows of all ranks, and whether latents and outputs are as near as allowed.

    A row that is missing or was not asked for, another shape and a NaN count as infinitely far.
    """
    if {index for rank in ranks for index in rank} != reference.keys():
        return float("inf"), False
    largest, is_same = 0.0, True
    for rank in ranks:
        for index, arrays in rank.items():
            for array, expected, limit in zip(arrays, reference[index], allowed, strict=True):
                is_comparable = array.shape == expected.shape and np.isfinite(array).all()
                difference = float(np.abs(array - expected).max()) if is_comparable else float("inf")
                largest, is_same = max(largest, difference), is_same and difference <= limit
    return largest, is_same


def tolerances(plan: dict[str, Any], reference: runtime.Made) -> tuple[float, ...]:
    """How far latents, outputs and sound may be from those of one process: by the dtypes of what made them."""
    components = plan["program"]["components"].items()
    low = {name for name, part in components if not part["omit"] and part["dtype"] in ("bfloat16", "float16")}
    largest = [max(float(np.abs(array).max()) for array in arrays) for arrays in zip(*reference.values(), strict=True)]
    is_low = (bool(low - {"vae"}), bool(low), bool(low))
    return tuple(LOW_PRECISION * most if is_low[at] else TOLERANCE for at, most in enumerate(largest))
