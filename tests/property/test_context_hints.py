"""What a hint of a context rule proposes is legal: every size, number of frames, degree and length is tried."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest
from dcompile.core.diagnostics import Diagnostic
from dcompile.driver import compile_recipe
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

FLUX = "black-forest-labs/FLUX.1-dev"
WAN = "Wan-AI/Wan2.1-T2V-1.3B-Diffusers"


def found(model: str, context: str, run: str, ranks: int) -> tuple[Diagnostic, ...]:
    text = (
        f"version: 1\nmodel: {{id: {model}}}\ndevices: {{gpu: b200-sxm, per_node: {ranks}}}\n"
        f"parallel: {{context: {{{context}}}}}\nrun: {{prompts: [a red fox], {run}}}\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "recipe.yaml"
        file.write_text(text, encoding="utf-8")
        return compile_recipe(file).diagnostics


def hints(code: str, diagnostics: tuple[Diagnostic, ...]) -> list[str]:
    return [one.hint for one in diagnostics if one.code == code]


def codes(diagnostics: tuple[Diagnostic, ...]) -> set[str]:
    return {one.code for one in diagnostics}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    rows=st.integers(20, 90),
    columns=st.integers(20, 90),
    frames=st.integers(0, 24).map(lambda latent: 4 * latent + 1),
    ring=st.integers(1, 4),
    ulysses=st.integers(1, 4),
)
def test_sizes_frames_and_degrees_of_a_video(rows: int, columns: int, frames: int, ring: int, ulysses: int) -> None:
    ranks, split = ring * ulysses, f"ring: {ring}, ulysses: {ulysses}"
    for hint in hints(
        "DC402", found(WAN, split, f"height: {rows * 16}, width: {columns * 16}, frames: {frames}", ranks)
    ):
        sizes = re.findall(r"(\d+)x(\d+) gives (\d+)", hint)
        for height, width, tokens in sizes:
            assert int(tokens) % ranks == 0
            run = f"height: {height}, width: {width}, frames: {frames}"
            assert not codes(found(WAN, split, run, ranks)) & {"DC402", "DC308"}
        for length in re.findall(r"`frames: (\d+)`", hint):
            run = f"height: {rows * 16}, width: {columns * 16}, frames: {length}"
            assert "DC402" not in codes(found(WAN, split, run, ranks))
        said = re.search(r"use ([\d, or]+) ranks", hint)
        for degree in re.findall(r"\d+", said[1]) if said and 1 in (ring, ulysses) else []:
            axis = "ulysses" if ring == 1 else "ring"
            run = f"height: {rows * 16}, width: {columns * 16}, frames: {frames}"
            assert not codes(found(WAN, f"{axis}: {degree}", run, int(degree))) & {"DC401", "DC402", "DC410"}
        if "uneven: true" in hint and "ring" not in hint:
            run = f"height: {rows * 16}, width: {columns * 16}, frames: {frames}"
            assert not codes(found(WAN, f"{split}, uneven: true", run, ranks)) & {"DC402", "DC411"}
        assert sizes or "uneven" in hint


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(length=st.integers(1, 512), ring=st.integers(1, 4), ulysses=st.integers(1, 4))
def test_lengths_of_text(length: int, ring: int, ulysses: int) -> None:
    ranks, split = ring * ulysses, f"ring: {ring}, ulysses: {ulysses}"
    size = "height: 1920, width: 1024"
    run = f"{size}, args: {{max_sequence_length: {length}}}"
    for hint in hints("DC403", found(FLUX, split, run, ranks)):
        said = re.search(r"`max_sequence_length: (\d+)`", hint)
        if said:
            other = f"{size}, args: {{max_sequence_length: {said[1]}}}"
            assert not codes(found(FLUX, split, other, ranks)) & {"DC403", "DC309"}
        if "uneven: true" in hint:
            assert not codes(found(FLUX, f"{split}, uneven: true", run, ranks)) & {"DC403", "DC411"}


@pytest.mark.parametrize("uneven", ["", ", uneven: true"])
@pytest.mark.parametrize("ulysses", [5, 7, 8, 9, 10, 14, 15, 16])
def test_degrees_for_heads(ulysses: int, uneven: str) -> None:
    run = "height: 720, width: 1280, frames: 81"
    for hint in hints("DC401", found(WAN, f"ulysses: {ulysses}{uneven}", run, ulysses)):
        said = re.search(r"`\{(ulysses: \d+, ring: \d+)\}` for (\d+) ranks", hint)
        if said:
            assert int(said[2]) == ulysses
            assert not codes(found(WAN, said[1], run, ulysses)) & {"DC401", "DC402", "DC410"}
        choices = re.search(r"use ([\d, or]+)", hint)
        assert choices is not None
        assert all(12 % int(choice) == 0 for choice in re.findall(r"\d+", choices[1]))
