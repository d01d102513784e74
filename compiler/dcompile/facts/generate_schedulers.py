"""Describes schedulers for `models/schedulers.json`: what each class takes and does. Part of `facts/generate.py`.

Whether a class draws noise, whether it follows a flow, which texts a setting takes and which arguments `set_timesteps`
accepts are found by running it on a few numbers. What a pipeline asks for is in `generate_scheduler_needs.py`.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import pkgutil
import re
import typing
import warnings
from typing import Any

import diffusers
import numpy as np
import torch

from dcompile.facts.generate_scheduler_needs import last_name, pipeline_needs, source_tree

STEPS = 6
# The last sigma of some classes is one step, not zero: with forty steps their end is close enough to tell.
PATH_STEPS = 40
PATH_TOLERANCE = 0.3
SHAPE = (1, 4, 2, 8, 8)
_FLOW_SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"prediction_type": "flow_prediction"},
    {"prediction_type": "flow_prediction", "use_flow_sigmas": True},
)
_BETAS: dict[str, Any] = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}
_NOISE_SWITCHES = ("stochastic_sampling", "algorithm_type")
_SHIFT_SWITCHES = ("use_dynamic_shifting", "use_flow_sigmas")
_PASSED: dict[str, Any] = {"mu": 0.5, "sigmas": np.linspace(1.0, 1 / STEPS, STEPS)}


def describe_schedulers(pipelines: list[str]) -> dict[str, Any]:
    """The content of `models/schedulers.json`, for the pipelines of these names."""
    needs = {name: pipeline_needs(getattr(diffusers, name)) for name in pipelines}
    profiles: list[dict[str, Any]] = []
    for need in needs.values():
        if need not in profiles:
            profiles.append(need)
    used = sorted(
        {
            name
            for need in profiles
            for names in (need["attributes"], *need["attributes_with"].values())
            for name in names
        }
    )
    classes, missing = {}, _missing()
    for name in sorted({name for name in dir(diffusers) if name.endswith("Scheduler")} - set(missing)):
        cls = getattr(diffusers, name)
        if callable(getattr(cls, "step", None)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                classes[name] = describe_scheduler(cls, used)
    return {
        "diffusers": diffusers.__version__,
        "schedulers": classes,
        "needs_a_library": missing,
        "profiles": profiles,
        "pipelines": {name: profiles.index(need) for name, need in needs.items()},
    }


def _missing() -> dict[str, list[str]]:
    """The libraries of the classes that need one which no extra brings.

    By the stand-ins that diffusers keeps for them, and not by what is installed: the facts are the same everywhere.
    """
    found = {}
    for module in pkgutil.iter_modules(diffusers.utils.__path__, "diffusers.utils."):
        if module.name.rpartition(".")[2].startswith("dummy_torch_and_"):
            for name, cls in vars(importlib.import_module(module.name)).items():
                if name.endswith("Scheduler"):
                    found[name] = [library for library in cls._backends if library != "torch"]
    return dict(sorted(found.items()))


def describe_scheduler(cls: Any, attributes: list[str]) -> dict[str, Any]:
    """One class; `attributes` are the names that any pipeline looks for."""
    parameters = {
        name: parameter
        for name, parameter in inspect.signature(cls.__init__).parameters.items()
        if name != "self" and parameter.kind is not inspect.Parameter.VAR_KEYWORD
    }
    tree, present = source_tree(cls), _members(cls)
    step = list(inspect.signature(cls.step).parameters.values())[1:]
    return {
        "arguments": {name: _plain(parameter.default) for name, parameter in parameters.items()},
        "choices": _choices(cls, parameters, tree),
        "one_of": _one_of(tree, set(parameters)),
        "needs_a_library": _switched_libraries(tree, set(parameters)),
        "attributes": [name for name in attributes if name in present],
        "set_timesteps": [name for name in inspect.signature(cls.set_timesteps).parameters if name != "self"],
        "step": [parameter.name for parameter in step],
        "step_required": sum(p.default is p.empty and p.kind is not p.VAR_KEYWORD for p in step),
        **_accepts_both(cls, set(parameters)),
        **_without_timesteps(cls, parameters),
        **_least_steps(cls, parameters),
        "noise": _settings(cls, parameters, tree, _differs),
        "shared_noise": _settings(cls, parameters, tree, _shares_noise),
        "flow": [settings for settings in _FLOW_SETTINGS if set(settings) <= set(parameters) and _flows(cls, settings)],
        "denoises": _denoises(cls, set(parameters)),
    }


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if isinstance(value, (bool, int, float, str)) else None


def _choices(cls: Any, parameters: dict[str, Any], tree: ast.AST) -> dict[str, list[str]]:
    """The texts that a setting takes: those of its type, or those that its source compares with and that run."""
    found = {}
    hints = typing.get_type_hints(cls.__init__)
    for name, parameter in parameters.items():
        literal = _literal(hints.get(name))
        if literal is None and isinstance(parameter.default, str):
            compared = _compared(tree, name) | {parameter.default}
            literal = [text for text in compared if _run(cls, {name: text}) is not None]
        if literal:
            found[name] = sorted(literal)
    return found


def _literal(hint: Any) -> list[str] | None:
    for part in (hint, *typing.get_args(hint)):
        if typing.get_origin(part) is typing.Literal:
            return [value for value in typing.get_args(part) if isinstance(value, str)]
    return None


def _compared(tree: ast.AST, name: str) -> set[str]:
    """Texts that the source compares a setting with, whether as `name`, `self.name` or `self.config.name`."""
    texts = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and last_name(node.left) == name:
            for side in node.comparators:
                values = side.elts if isinstance(side, (ast.List, ast.Tuple, ast.Set)) else [side]
                texts |= {v.value for v in values if isinstance(v, ast.Constant) and isinstance(v.value, str)}
    return texts


def _one_of(tree: ast.AST, parameters: set[str]) -> list[list[str]]:
    """Settings of which at most one may be on: `sum([self.config.a, self.config.b]) > 1` in the source."""
    groups = []
    for node in ast.walk(tree):
        is_sum = isinstance(node, ast.Call) and last_name(node.func) == "sum" and node.args
        if is_sum and isinstance(node.args[0], ast.List):  # type: ignore[attr-defined]
            items = node.args[0].elts  # type: ignore[attr-defined]
            names = sorted({name for item in items if (name := last_name(item)) in parameters})
            if len(names) > 1 and names not in groups:
                groups.append(names)
    return groups


def _switched_libraries(tree: ast.AST, parameters: set[str]) -> dict[str, str]:
    """Settings that need a library when on: `if self.config.a and not is_LIBRARY_available()` in the source."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.And):
            names = [last_name(value) for value in node.test.values]
            asked = [
                match[1]
                for value in node.test.values
                if isinstance(value, ast.UnaryOp) and isinstance(value.operand, ast.Call)
                if (match := re.fullmatch(r"is_(\w+)_available", last_name(value.operand.func) or ""))
            ]
            found |= {name: library for name in names if name in parameters for library in asked}
    return found


def _members(cls: Any) -> set[str]:
    """Names on an instance, which some `__init__`s add to; those of the class where no instance can be made."""
    try:
        return set(dir(_build(cls, {})))
    except ValueError:  # a setting without a default that takes certain texts only
        return set(dir(cls))


def _build(cls: Any, settings: dict[str, Any]) -> Any:
    """An instance; arguments without a default (a token id) are 1."""
    required = {
        name: 1
        for name, parameter in inspect.signature(cls.__init__).parameters.items()
        if name != "self" and parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
    }
    return cls(**required | settings)


def _run(
    cls: Any, settings: dict[str, Any], model: Any = None, steps: int = STEPS, seeds: tuple[int, ...] = ()
) -> torch.Tensor | None:
    """The last sample of a short denoising loop, or None where the class cannot run it.

    With `seeds` there is a sample for each, and a generator, which `step` gets where it takes one.
    """
    sample = torch.randn(SHAPE, generator=torch.Generator().manual_seed(7)).repeat(len(seeds) or 1, 1, 1, 1, 1)
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    takes = seeds and "generator" in inspect.signature(cls.step).parameters
    given_to_step = {"generator": generators if len(seeds) > 1 else generators[0]} if takes else {}
    try:
        scheduler = _build(cls, settings)
        scheduler.set_timesteps(steps)
        sample = sample * float(getattr(scheduler, "init_noise_sigma", 1.0))
        for timestep in scheduler.timesteps:
            given = scheduler.scale_model_input(sample, timestep) if hasattr(scheduler, "scale_model_input") else sample
            predicted = given * 0.5 if model is None else model(given, timestep)
            sample = scheduler.step(predicted, timestep, sample, return_dict=False, **given_to_step)[0]
    except Exception:  # what a class raises is not ours to list: it cannot run this way
        return None
    return sample


def _least_steps(cls: Any, parameters: dict[str, Any]) -> dict[str, Any]:
    """The fewest steps that run, where that is not one; and the switches with which a single one does."""
    least = next((steps for steps in range(1, STEPS + 1) if _run(cls, {}, steps=steps) is not None), 1)
    if least == 1:
        return {}
    switches = {name: not one.default for name, one in parameters.items() if isinstance(one.default, bool)}
    fewer = {name: value for name, value in switches.items() if _run(cls, {name: value}, steps=1) is not None}
    return {"least_steps": least, "fewer_with": fewer}


def _accepts_both(cls: Any, parameters: set[str]) -> dict[str, Any]:
    """What is accepted where `sigmas` are an array, as pipelines make them, and where a list is not taken as one is."""
    accepts = _accepts(cls, parameters, _PASSED)
    of_list = _accepts(cls, parameters, {**_PASSED, "sigmas": _PASSED["sigmas"].tolist()})
    other = {passed: of_list.get(passed, []) for passed in accepts if of_list.get(passed) != accepts[passed]}
    return {"accepts": accepts, **({"accepts_list": other} if other else {})}


def _without_timesteps(cls: Any, parameters: dict[str, Any]) -> dict[str, list[str]]:
    """The switches with which `set_timesteps` takes no `timesteps`, where it does without; an entry where there are.

    With `use_dynamic_shifting` it wants `mu`, which is for `accepts` to say.
    """
    named = (name for name, one in parameters.items() if name.startswith("use_") and one.default is False)
    switches = [name for name in named if name != "use_dynamic_shifting"]
    if not _takes_timesteps(cls, {}):
        return {}
    refused = [name for name in switches if not _takes_timesteps(cls, {name: True})]
    return {"without_timesteps": refused} if refused else {}


def _takes_timesteps(cls: Any, settings: dict[str, bool]) -> bool:
    try:
        _build(cls, settings).set_timesteps(timesteps=[900, 500, 100])
    except Exception:  # whatever is raised, the call is refused
        return False
    return True


def _accepts(cls: Any, parameters: set[str], given: dict[str, Any]) -> dict[str, list[dict[str, bool]]]:
    """For what a pipeline may pass beside the steps (`mu sigmas`): the settings with which it is accepted."""
    switches = [name for name in _SHIFT_SWITCHES if name in parameters]
    combinations = [
        dict(zip(switches, values, strict=True)) for values in itertools.product((False, True), repeat=len(switches))
    ]
    found = {}
    for count in range(len(given) + 1):
        for names in itertools.combinations(given, count):
            passed = {name: given[name] for name in names}
            legal = [settings for settings in combinations if _takes(cls, settings, passed)]
            found[" ".join(names)] = [{}] if len(legal) == len(combinations) else legal
    return {passed: settings for passed, settings in found.items() if settings}


def _takes(cls: Any, settings: dict[str, bool], passed: dict[str, Any]) -> bool:
    flow = {"prediction_type": "flow_prediction"} if settings.get("use_flow_sigmas") else {}
    if flow and "prediction_type" not in inspect.signature(cls.__init__).parameters:
        flow = {}
    try:
        scheduler = _build(cls, settings | flow)
        scheduler.set_timesteps(**({} if "sigmas" in passed else {"num_inference_steps": STEPS}), **passed)
    except Exception:  # as above: whatever is raised, the call is refused
        return False
    return True


def _settings(cls: Any, parameters: dict[str, Any], tree: ast.AST, is_found: Any) -> list[dict[str, Any]]:
    """Settings with which `is_found(cls, settings)` says yes; `[{}]` where it always does."""
    candidates: list[dict[str, Any]] = [{}]
    for name in _NOISE_SWITCHES:
        if name in parameters:
            default = parameters[name].default
            values: list[Any] = [not default] if isinstance(default, bool) else sorted(_compared(tree, name))
            candidates += [{name: value} for value in values]
    found: list[dict[str, Any]] = []
    for settings in candidates:
        if is_found(cls, settings) or (
            "final_sigmas_type" in parameters and is_found(cls, {**settings, "final_sigmas_type": "sigma_min"})
        ):
            if not settings:
                return [{}]
            found.append(settings)
    return found


def _differs(cls: Any, settings: dict[str, Any]) -> bool:
    """Whether two runs differ where only the global generator does."""
    ends = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        ends.append(_run(cls, settings))
    first, second = ends
    if first is None or second is None:
        # What cannot be run by `_run` is made for one pipeline; where it takes a generator, that is to draw noise.
        return not settings and "generator" in inspect.signature(cls.step).parameters
    return not torch.equal(first, second)


def _shares_noise(cls: Any, settings: dict[str, Any]) -> bool:
    """Whether a picture of two in one call is another one than alone, though each has its generator."""
    if _run(cls, settings) is None:
        return False
    together = _run(cls, settings, seeds=(1, 2))
    alone = [_run(cls, settings, seeds=(seed,)) for seed in (1, 2)]
    return together is None or any(
        one is None or not torch.equal(together[index], one[0]) for index, one in enumerate(alone)
    )


def _flows(cls: Any, settings: dict[str, Any]) -> bool:
    """Whether the loop is right for a model that predicts the velocity of the straight path from noise to data.

    At a timestep t that model has seen (1 - s) data + s noise with s = t / 1000.
    """
    return _follows(cls, settings, lambda timestep: (1 - timestep / 1000, timestep / 1000), is_velocity=True)


def _denoises(cls: Any, parameters: set[str]) -> bool:
    """Whether the loop is right for a model that predicts the noise of Stable Diffusion's training schedule.

    At a timestep t that model has seen a data + b noise with a^2 + b^2 = 1, a^2 the product of all 1 - beta up to t.
    """
    betas = torch.linspace(_BETAS["beta_start"] ** 0.5, _BETAS["beta_end"] ** 0.5, 1000, dtype=torch.float64) ** 2
    products = torch.cumprod(1 - betas, 0).numpy()

    def shares(timestep: float) -> tuple[float, float]:
        kept = float(np.interp(timestep, np.arange(1000), products))
        return kept**0.5, (1 - kept) ** 0.5

    settings = {name: value for name, value in _BETAS.items() if name in parameters}
    return _follows(cls, settings, shares, is_velocity=False)


def _follows(cls: Any, settings: dict[str, Any], shares: Any, *, is_velocity: bool) -> bool:
    """Whether an exact model is shown unit noise in the right share at every step, and the loop ends at the data.

    The end alone does not tell: so good a model pulls most paths back.
    """
    data = torch.rand(SHAPE, generator=torch.Generator().manual_seed(3)) * 1.8 - 0.9  # some classes clip at 1
    spreads: list[float] = []

    def exact(sample: torch.Tensor, timestep: torch.Tensor) -> torch.Tensor:
        of_data, of_noise = shares(float(timestep))
        noise = (sample - of_data * data) / max(of_noise, 1e-6)
        spreads.append(float(noise.std()))
        return noise - data if is_velocity else noise

    torch.manual_seed(0)
    end = _run(cls, settings, exact, PATH_STEPS)
    on_path = all(abs(spread - 1) < PATH_TOLERANCE for spread in spreads)
    return end is not None and on_path and bool((end - data).abs().max() < PATH_TOLERANCE)
