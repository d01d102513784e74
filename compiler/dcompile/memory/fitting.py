"""Fits peaks to sums of terms with coefficients that are not negative. Imports torch; for `memory/measure.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

LEAST_SHARE = 1e-3
"""A term that never makes up more of a peak is left out."""


@dataclass(frozen=True)
class Sample:
    """One run: the value of every term, and the bytes that were measured."""

    terms: Mapping[str, float]
    peak_bytes: int


def fit(samples: Sequence[Sample]) -> dict[str, float]:
    """Coefficients in bytes by term; terms without influence are left out, `error` is the largest relative one.

    Least squares of the relative errors; the most negative coefficient is dropped until none is left, then those that
    never make up `LEAST_SHARE` of a peak.
    """
    with torch.device("cpu"):  # the measurement itself has the meta device for a default
        names = list(samples[0].terms)
        while True:
            shares, largest, error = _solved(samples, names)
            least = min(range(len(names)), key=lambda at: shares[at] * largest[at])
            if len(names) == 1 or shares[least] * largest[least] >= LEAST_SHARE:
                break
            names.pop(least)
        return {name: _rounded(share) for name, share in zip(names, shares, strict=True)} | {"error": round(error, 4)}


def _solved(samples: Sequence[Sample], names: Sequence[str]) -> tuple[list[float], list[float], float]:
    """Coefficients, the largest value of each term over its peak, and the largest relative error."""
    rows = [[float(sample.terms[name]) / sample.peak_bytes for name in names] for sample in samples]
    matrix = torch.tensor(rows, dtype=torch.float64)
    largest = matrix.max(dim=0).values.clamp(min=1e-30)
    ones = torch.ones(len(samples), 1, dtype=torch.float64)
    scaled = torch.linalg.lstsq(matrix / largest, ones, driver="gelsd").solution[:, 0]
    error = float((matrix / largest @ scaled - 1).abs().max())
    return (scaled / largest).tolist(), largest.tolist(), error


def _rounded(value: float) -> float:
    """Five significant digits, so that the file is the same from every machine."""
    return float(f"{value:.5g}")
