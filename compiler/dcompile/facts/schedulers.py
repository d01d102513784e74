"""What is known about diffusers' schedulers, read from `models/schedulers.json`. Only recipes that need it read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from dcompile.facts.registry import MODELS, read_json
from dcompile.facts.types import ModelFacts


@dataclass(frozen=True)
class SchedulerFacts:
    """One scheduler class.

    Attributes:
        arguments: settings of the class with their defaults.
        choices: the texts that a setting takes.
        one_of: groups of settings of which at most one may be on.
        needs_a_library: settings that need a library which no extra of ours brings, where they are on.
        attributes: what an instance has of the names that pipelines look for.
        set_timesteps, step: names of the arguments of these methods; `step_required` are without a default.
        accepts: what may be passed to `set_timesteps` beside the steps (`mu sigmas`), and with which settings; empty
            where the class needs more than that. `accepts_list` has what differs where `sigmas` are a list.
        noise: settings with which a step draws from the global generator; `{}` stands for any.
        shared_noise: those with which it does so, or fails, though each picture of a call has handed a generator to it.
        flow: settings with which it is right for a model that predicts the velocity of a straight path; `{}` for any.
        denoises: whether it is right for a model that predicts the noise of Stable Diffusion's training schedule.
        without_timesteps: the switches with which `set_timesteps` takes no `timesteps`.
        least_steps: the fewest steps that it can run, and `fewer_with` the settings of which each lets it run one.
    """

    arguments: dict[str, Any]
    choices: dict[str, list[str]]
    one_of: list[list[str]]
    needs_a_library: dict[str, str]
    attributes: list[str]
    set_timesteps: list[str]
    step: list[str]
    step_required: int
    accepts: dict[str, list[dict[str, bool]]]
    noise: list[dict[str, Any]]
    shared_noise: list[dict[str, Any]]
    flow: list[dict[str, Any]]
    denoises: bool
    accepts_list: dict[str, list[dict[str, bool]]] = field(default_factory=dict)
    without_timesteps: list[str] = field(default_factory=list)
    least_steps: int = 1
    fewer_with: dict[str, bool] = field(default_factory=dict)

    def draws_noise(self, settings: dict[str, Any]) -> bool:
        """Whether steps draw noise under the given settings."""
        return _any_holds(self.noise, settings)

    def shares_noise(self, settings: dict[str, Any], needs: Needs | None) -> bool:
        """Whether pictures of one call would get noise that depends on each other, in a pipeline of these needs."""
        hands_generator = needs is not None and needs.hands_generator
        return _any_holds(self.shared_noise if hands_generator else self.noise, settings)

    def follows_flow(self, settings: dict[str, Any]) -> bool:
        """Whether the class is right for a flow model under the given settings."""
        return _any_holds(self.flow, settings)


def _any_holds(conditions: list[dict[str, Any]], settings: dict[str, Any]) -> bool:
    return any(all(settings.get(name) == value for name, value in condition.items()) for condition in conditions)


@dataclass(frozen=True)
class Needs:
    """What a pipeline class asks of its scheduler.

    Attributes:
        attributes: names that it uses without asking for them first; `attributes_with`: those that it uses only where
            an argument of its call is on.
        set_timesteps, step: arguments that it passes by name; `step_arguments` are passed by place.
        flow_guard: it passes no `sigmas` where the scheduler's `use_flow_sigmas` is on.
        mu_guard: it passes `mu` only where the scheduler's `use_dynamic_shifting` is on.
        hands_generator: every `step` gets the call's generator where it takes one.
    """

    attributes: list[str]
    attributes_with: dict[str, list[str]]
    set_timesteps: list[str]
    step: list[str]
    step_arguments: int
    flow_guard: bool
    mu_guard: bool
    hands_generator: bool


@lru_cache(maxsize=1)
def _table() -> dict[str, Any]:
    table: dict[str, Any] = read_json(MODELS / "schedulers.json")
    return table


def known_schedulers() -> tuple[str, ...]:
    """The scheduler classes of diffusers, sorted."""
    return tuple(_table()["schedulers"])


def missing_libraries(name: str, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """The libraries that a scheduler class of diffusers needs with these settings and that no extra of ours brings."""
    facts = scheduler_facts(name)
    if facts is None:
        return tuple(_table()["needs_a_library"].get(name, ()))
    return tuple(sorted({library for switch, library in facts.needs_a_library.items() if settings.get(switch)}))


def scheduler_facts(name: str) -> SchedulerFacts | None:
    """The facts of a class, or None where diffusers has none of that name."""
    found = _table()["schedulers"].get(name)
    return None if found is None else SchedulerFacts(**found)


def pipeline_needs(pipeline: str, scheduler: str) -> Needs | None:
    """What a pipeline class asks of a scheduler of this class, or None where it is none of diffusers'."""
    table = _table()
    at = table["pipelines"].get(pipeline)
    if at is None:
        return None
    needs = dict(table["profiles"][at])
    for name in ("set_timesteps", "step_arguments"):  # some have a call of its own for a class
        needs[name] = needs.pop(f"{name}_of").get(scheduler, needs[name])
    return Needs(**needs)


def effective_settings(facts: SchedulerFacts, model: ModelFacts, own: dict[str, Any]) -> dict[str, Any]:
    """The settings that `from_config` gives a class: its defaults, the model's published ones, the recipe's.

    What the class does not take is dropped, as `from_config` does.
    """
    given = {**model.scheduler, **own}
    return {name: given.get(name, default) for name, default in facts.arguments.items()}
