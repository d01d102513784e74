"""The plan: what is split over which axis, what lies on each device, and why."""

from __future__ import annotations

from dataclasses import dataclass

from dcompile.estimate.job import Estimate
from dcompile.layout.placement import Placement
from dcompile.memory.fit import DeviceLoad
from dcompile.recipe.model import Recipe
from dcompile.rules.check import CheckedRecipe


@dataclass(frozen=True)
class Decision:
    """Something that the compiler chose because the recipe left it open."""

    what: str
    chosen: str
    because: str
    alternatives: tuple[str, ...] = ()


@dataclass(frozen=True)
class ComponentPlan:
    """One component: its dtype and where it lies. Sizes in bytes of one rank."""

    name: str
    dtype: str
    layout: dict[str, object]
    parameters: int
    weight_bytes: int
    because: str
    attention: str | None = None


@dataclass(frozen=True)
class Plan:
    """The whole job. `written` is the recipe as it was read; `checked` has the plan that `auto` stands for."""

    checked: CheckedRecipe
    written: Recipe
    strategy: str
    mesh: dict[str, int]
    placement: Placement
    components: tuple[ComponentPlan, ...]
    loads: tuple[DeviceLoad, ...]
    traffic: dict[str, dict[str, int]]
    estimate: Estimate
    shares: tuple[tuple[int, ...], ...]
    decisions: tuple[Decision, ...]

    @property
    def ranks(self) -> int:
        """Processes that are started."""
        return self.checked.subject.splits.ranks
