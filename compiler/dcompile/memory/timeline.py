"""What lies on a device over a job: encode, denoise, decode.

A component that is offloaded rests in host memory. It comes to its device when it is called and leaves when another
component is called (`runtime/offload.py`), so at any moment at most one of them is there, beside what stays.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from dcompile.memory.home import Kept
from dcompile.memory.peaks import PHASES, Peak

EMPTY: Mapping[str, Kept] = {}


@dataclass(frozen=True)
class ShapedPeak:
    """The largest peak of a component in a phase, and the row whose shape has it; None for the recipe's own."""

    peak: Peak
    row: int | None = None


@dataclass(frozen=True)
class Phase:
    """One phase of a job on one device, at its fullest moment.

    Attributes:
        name: one of `PHASES`.
        components: bytes of the weights of each component that lies there at that moment.
        weight_bytes: of all of them.
        activation_bytes: the peak of the component that is called.
        margin_bytes: by how much that may be wrong.
        called: the component that is called, or that lies elsewhere and hands over most of the activations; None where
            there is none of both.
        row: the row whose shape it is, where that is not the recipe's own.
    """

    name: str
    components: Mapping[str, int]
    weight_bytes: int
    activation_bytes: int = 0
    margin_bytes: int = 0
    called: str | None = None
    row: int | None = None

    @property
    def need_bytes(self) -> int:
        """Weights and activations."""
        return self.weight_bytes + self.activation_bytes


@dataclass(frozen=True)
class Timeline:
    """A device over the phases of a job.

    Attributes:
        phases: in order.
        fullest: the one that needs most; of equals the first.
        need_bytes: what it needs.
        least_bytes: what is needed in some phase even where its estimate is wrong by its margin.
    """

    phases: tuple[Phase, ...]
    fullest: Phase
    need_bytes: int
    least_bytes: int


def need_bytes(
    held: Mapping[str, int],
    peaks: Mapping[str, Mapping[str, ShapedPeak]],
    offloaded: Collection[str] = (),
    home: Mapping[str, Kept] = EMPTY,
) -> int:
    """What a device needs in its fullest phase: `timeline(...).need_bytes` alone, for a search that asks thousands."""
    stay_bytes = sum(size for name, size in held.items() if name not in offloaded)
    visiting = {name: size if name in offloaded else 0 for name, size in held.items()}
    most = max((kept.need_bytes for kept in home.values()), default=0)
    for name, size in visiting.items():
        for phase, shaped in peaks[name].items():
            kept = home.get(phase)
            always = kept.always_bytes if kept is not None else 0
            most = max(most, shaped.peak.peak_bytes + size + always)
    return stay_bytes + most


def timeline(
    held: Mapping[str, int],
    peaks: Mapping[str, Mapping[str, ShapedPeak]],
    offloaded: Collection[str] = (),
    home: Mapping[str, Kept] = EMPTY,
) -> Timeline:
    """The phases of a job on one device.

    Args:
        held: bytes of each component's weights that belong on the device.
        peaks: the largest peak of every component in each phase in which it is called.
        offloaded: the components among them that rest in host memory.
        home: what the pipeline holds there in each phase, where it is the device that it works on.
    """
    staying = {name: size for name, size in held.items() if name not in offloaded}
    stay_bytes = sum(staying.values())
    phases = []
    for phase in PHASES:
        needs_of = {
            name: peaks[name][phase].peak.peak_bytes + (size if name in offloaded else 0)
            for name, size in held.items()
            if phase in peaks[name]
        }
        own = home.get(phase, Kept())
        called = max(needs_of, key=needs_of.__getitem__, default=None)
        if called is None or needs_of[called] < own.handed_bytes:
            called = own.called if own.need_bytes else None
            phases.append(Phase(phase, staying, stay_bytes, own.need_bytes, 0, called))
            continue
        shaped, visits = peaks[called][phase], called in offloaded
        phases.append(
            Phase(
                name=phase,
                components={**staying, called: held[called]} if visits else staying,
                weight_bytes=stay_bytes + (held[called] if visits else 0),
                activation_bytes=shaped.peak.peak_bytes + own.always_bytes,
                margin_bytes=shaped.peak.margin_bytes,
                called=called,
                row=shaped.row if shaped.peak.peak_bytes else None,
            )
        )
    needs = [phase.need_bytes for phase in phases]
    most = max(needs)
    least = max(need - phase.margin_bytes for need, phase in zip(needs, phases, strict=True))
    return Timeline(tuple(phases), phases[needs.index(most)], most, least)
