"""Why a plan was chosen and why another was not, as sentences; every number is computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dcompile.core.units import format_bytes, format_seconds
from dcompile.facts.resolve import Facts
from dcompile.memory.fit import DeviceLoad
from dcompile.plan.auto.judge import Judged
from dcompile.plan.auto.rank import ALIKE, rank, standing
from dcompile.plan.types import Decision


def fullness(load: DeviceLoad) -> str:
    """`device 0 holds 20.1 of 24.0 GiB`, with what it keeps in reserve counted."""
    used = load.need_bytes + load.reserve_bytes
    return f"{format_bytes(used)} of {format_bytes(load.memory_bytes or 0)}"


def because(winner: Judged, judged: Sequence[Judged], facts: Facts) -> str:
    """Why the winner won."""
    fitting = [one for one in judged if one.checked is not None]
    alike = [one for one in fitting if standing(one) == standing(winner)]
    of_them = f"{len(alike)} legal plans that fit"
    if len(fitting) == 1:
        first = "the only legal plan that fits"
    elif len(alike) == 1:
        first = f"of {len(fitting)} legal plans that fit the only one without a warning, or doubt about the host"
        first = f"the best of {len(fitting)} legal plans that fit, each with a warning" if winner.warns else first
    elif winner.seconds is None:
        first = f"of {of_them} the one with the least work for a rank, for the speed of these devices is not known"
    else:
        first = f"the fastest of {of_them}"
        if any(one.time < winner.time for one in alike):
            first = f"within {ALIKE:.0%} of the fastest of {of_them}, on fewer devices or simpler"
    parts = [first]
    if winner.seconds is not None and winner.step_seconds is not None:
        parts.append(
            f"{format_seconds(winner.seconds)} without loading, {format_seconds(winner.step_seconds)} a step (estimate)"
        )
    if winner.candidate.offloads:
        staying = [one for one in rank(fitting) if not one.candidate.offloads]
        if not staying:
            if not all(one.candidate.offloads for one in judged):  # else the recipe asks for it
                parts.append("nothing fits without offloading")
        elif staying[0].warns and not winner.warns:
            parts.append("without offloading nothing fits with room to spare")
        elif staying[0].seconds is not None:
            best = f"`{staying[0].candidate.text}`"
            parts.append(f"without offloading {best} is the best, and takes {format_seconds(staying[0].seconds)}")
        if winner.offload_seconds is not None:
            parts.append(f"{format_seconds(winner.offload_seconds)} of each call to copy weights from the host")
        parts.append(f"{format_bytes(winner.host_bytes)} of memory on each host")
    if winner.load is not None:
        parts.append(f"the fullest device has {fullness(winner.load)}")
    alone = [one for one in judged if one.candidate.kind == "single" and one.candidate.data == 1]
    largest = [one.load for one in alone if one.is_too_large and one.load is not None and not one.candidate.offloads]
    if largest and not any(one.checked is not None and not one.candidate.offloads for one in alone):
        parts.append(f"one device would need {fullness(max(largest, key=lambda load: load.memory_bytes or 0))}")
    return "; ".join(parts)


def lost(one: Judged, winner: Judged) -> str:
    """Why a plan that is legal and fits was not chosen."""
    if one.warns and not winner.warns:
        warning = next(found for found in one.diagnostics if found.severity.value == "warning")
        return f"{warning.code}: {warning.message}"
    if one.is_last_resort and not winner.is_last_resort:
        took = f"; {format_seconds(one.seconds)}" if one.seconds is not None else ""
        if one.has_room_on_host:
            return f"offloads, and what that takes on these devices is not known{took}"
        takes = f"offloads, which takes {format_bytes(one.host_bytes)} of memory on each host"
        return f"{takes}: more than is taken for granted without `devices.host_memory`{took}"
    if one.time > winner.time * (1 + ALIKE):
        if one.seconds is None or winner.seconds is None:
            return f"a rank does {one.time / winner.time:.2f} times the work"
        text = f"{format_seconds(one.seconds)}, {one.seconds / winner.seconds:.2f} times as long"
        if one.seconds <= winner.seconds * (1 + ALIKE):
            return f"{text}, but not if its copies from the host take twice their nominal time"
        return text
    if one.candidate.offloads and not winner.candidate.offloads:
        return "takes as long, and offloads"
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
    faster = min(larger, key=lambda one: one.time, default=winner)
    if faster.time < winner.time and faster.warns:
        share = f"would take {faster.time / winner.time:.0%} of the time"
        why = f"{why}; `{faster.candidate.text}` {share}, but {lost(faster, winner)}"
    yield Decision("devices", f"{used} of {total}", why)
