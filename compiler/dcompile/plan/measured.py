"""What a plan says about values that were measured on its machine: that they were used, or why not."""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.units import format_rate
from dcompile.estimate.constants import measured_speed, rates_of
from dcompile.facts.resolve import Facts
from dcompile.facts.types import MeasuredSpeed
from dcompile.layout.nodes import used_devices
from dcompile.layout.settings import component_dtype
from dcompile.layout.splits import Splits
from dcompile.plan.types import Decision
from dcompile.recipe.model import Recipe

PARTS = (
    ("matmul_flops_per_second", "matrix products", "FLOP/s"),
    ("attention_flops_per_second", "attention", "FLOP/s"),
    ("memory_bytes_per_second", "memory", "B/s"),
)


def measured_decisions(recipe: Recipe, facts: Facts, splits: Splits) -> Iterator[Decision]:
    """Decisions about `devices.measured`; none where the recipe has no such section."""
    devices, working = facts.devices, used_devices(facts.devices, splits)
    name = facts.model.denoisers[0]
    dtype = component_dtype(recipe, name, devices.kind)
    given = [device.measured for device in working if device.measured is not None]
    used = [speed for device in working if (speed := measured_speed(device, dtype)) is not None]
    if used:
        slowest = {key: min(values) for key, _, _ in PARTS if (values := _values(used, key))}
        words = [f"{what} {format_rate(slowest[key], unit)}" for key, what, unit in PARTS if key in slowest]
        if any(one.host_seconds_per_block is not None for one in used):
            words.append("the host's part of a block")
        table = [what for key, what, _ in PARTS if key not in slowest]
        rest = f"; {' and '.join(table)} by the table" if table else ""
        if any(rates_of(device, dtype) is None for device in working):
            rest = f"; but {' and '.join(table)} were not, so that no time can be told"
        because = f"`devices.measured` has {', '.join(words)} in {used[0].dtype}{rest}"
        yield Decision("estimate.speeds", "as measured", because)
    elif given:
        known = all(rates_of(device, dtype) is not None for device in working)
        because = f"`devices.measured` is in {given[0].dtype}, and `{name}` is in {dtype}"
        yield Decision("estimate.speeds", "by the table" if known else "not known", because)
    if devices.curves:
        of = [f"{name} of {_listed(curves)} ranks" for name, curves in sorted(devices.curves.items())]
        yield Decision("estimate.collectives", "as measured", f"`devices.measured` has {', '.join(of)}")


def _values(speeds: list[MeasuredSpeed], key: str) -> list[float]:
    return [value for one in speeds if (value := getattr(one, key)) is not None]


def _listed(curves: dict[int, tuple[tuple[int, float], ...]]) -> str:
    """`2, 4 and 8`."""
    *first, last = map(str, sorted(curves))
    return f"{', '.join(first)} and {last}" if first else last
