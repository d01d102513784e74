"""FLUX.1 Kontext from a prompt alone under `context`: its tokens follow from height, width and `max_area`.

The pipeline keeps the aspect and makes the size of an area (diffusers 0.42.1, `pipeline_flux_kontext.py:841`).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

KONTEXT = "version: 1\nmodel: {id: black-forest-labs/FLUX.1-Kontext-dev}\ndevices: {gpu: h100-sxm-80gb, per_node: 4}\n"


def codes(compiled: Callable, run: str, context: str = "ulysses: 4") -> list[str]:
    text = KONTEXT + f"parallel: {{context: {{{context}}}}}\nrun: {{prompts: [a red fox]{run}}}\n"
    return [found.code for found in compiled(text).diagnostics]


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ("", []),  # 1024x1024: 4096 tokens
        (", height: 1024, width: 1024", []),
        (", height: 1248, width: 832", []),  # 1254x836, in whole tokens 1248x832: 78x52
        (", height: 1008, width: 1008, args: {max_area: 1016064}", ["DC402"]),  # 63x63
        (", height: 1040, width: 976, args: {max_area: 1015040}", ["DC402"]),  # 65x61
    ],
)
def test_what_is_made_is_counted(run: str, expected: list[str], compiled: Callable) -> None:
    assert codes(compiled, run) == expected


def test_lengths_that_do_not_divide_are_legal_where_they_may(compiled: Callable) -> None:
    odd = ", height: 1008, width: 1008, args: {max_area: 1016064}"
    assert codes(compiled, odd, "ulysses: 4, uneven: true") == []


def test_another_size_than_asked_for_is_said(compiled: Callable) -> None:
    text = KONTEXT + "parallel: {context: {ulysses: 4}}\nrun: {prompts: [a red fox], height: 512, width: 896}\n"
    (found,) = compiled(text).diagnostics
    assert (found.code, found.severity.value) == ("DC308", "warning")
    assert "makes 1344x768 of 896x512" in found.message
