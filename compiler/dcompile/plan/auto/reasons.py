"""Why a plan was chosen and why another was not, as sentences; every number is computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dcompile.core.units import format_bytes, format_seconds
from dcompile.facts.resolve import Facts
from dcompile.memory.fit import DeviceLoad
from dcompile.plan.auto.judge import Judged
from dcompile.plan.auto.rank import ALIKE, rank
from dcompile.plan.types import Decision


def fullness(load: DeviceLoad) -> str:
    """`device 0 holds 20.1 of 24.0 GiB`, with what it keeps in reserve counted."""
    used = load.need_bytes + load.reserve_bytes
    return f"{format_bytes(used)} of {format_bytes(load.memory_bytes or 0)}"


def because(winner: Judged, judged: Sequence[Judged], facts: Facts) -> str:
    """Why the winner won."""
    all_fitting = [one for one in judged if one.checked is not None]
    alike = [one for one in all_fitting if (one.candidate.offloads > 0) == (winner.candidate.offloads > 0)]
    fitting = len(alike)
    if fitting == 1:
        first = "the only legal plan that fits" + (" without offloading" if len(all_fitting) > 1 else "")
    elif winner.seconds is None:
        first = f"of {fitting} legal plans that fit the one with the least work for a rank, for the speed of these "
        first += "devices is not known"
    else:
        near = [one for one in alike if one.time < winner.time]
        first = f"the fastest of {fitting} legal plans that fit"
        if any(one.warns == winner.warns for one in near):
            first = f"within {ALIKE:.0%} of the fastest of {fitting} legal plans that fit, on fewer devices or simpler"
    parts = [first]
    if winner.seconds is not None and winner.step_seconds is not None:
        parts.append(
            f"{format_seconds(winner.seconds)} without loading, {format_seconds(winner.step_seconds)} a step (estimate)"
        )
    if winner.candidate.offloads:
        if fitting == len(all_fitting):
            parts.append("nothing fits without offloading")
        if winner.offload_seconds is not None:
            parts.append(f"{format_seconds(winner.offload_seconds)} of each call to copy weights from the host")
    if winner.load is not None:
        parts.append(f"the fullest device has {fullness(winner.load)}")
    single = next((one for one in judged if one.candidate.kind == "single" and one.candidate.data == 1), None)
    if single is not None and single.is_too_large and single.load is not None:
        parts.append(f"one device would need {fullness(single.load)}")
    return "; ".join(parts)


def lost(one: Judged, winner: Judged) -> str:
    """Why a plan that is legal and fits was not chosen."""
    if one.warns and not winner.warns:
        warning = next(found for found in one.diagnostics if found.severity.value == "warning")
        return f"{warning.code}: {warning.message}"
    if one.candidate.offloads and not winner.candidate.offloads:
        took = f"; {format_seconds(one.seconds)}" if one.seconds is not None else ""
        return f"offloads, which is for what does not fit otherwise{took}"
    if one.time > winner.time * (1 + ALIKE):
        if one.seconds is not None:
            return f"{format_seconds(one.seconds)}, {one.time / winner.time:.2f} times as long"
        return f"a rank does {one.time / winner.time:.2f} times the work"
    if one.candidate.devices > winner.candidate.devices:
        return f"takes as long, on {one.candidate.devices} devices"
    return "takes as long, on as many devices, and is less simple"


def refused(one: Judged) -> str:
    """Why a plan cannot be: too large, or against a rule."""
    if one.load is not None:
        return f"does not fit: {fullness(one.load)}"
    error = next(found for found in one.diagnostics if found.severity.value == "error")
    return f"{error.code}: {error.message}"


def idle(winner: Judged, judged: Sequence[Judged], total: int) -> Iterator[Decision]:
    """The decision to leave devices idle, where the plan does."""
    used = winner.candidate.devices
    if used == total:
        return
    larger = [one for one in rank(judged) if one.candidate.devices > used]
    if larger:
        why = f"the best plan on more, `{larger[0].candidate.text}`: {lost(larger[0], winner)}"
    else:
        why = "no plan on more is legal and fits"
    yield Decision("devices", f"{used} of {total}", why)
