"""Mutated recipes through every stage: no exception, and every finding has a code and a line inside its file."""

from __future__ import annotations

import random
import re
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dcompile.cli.render import Finding, as_text, locate
from dcompile.codes import CODES
from dcompile.driver import Compiled, compile_recipe
from dcompile.recipe.sections import SECTIONS, fields
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).parents[2]
RECIPES = [
    file.read_text(encoding="utf-8").replace("quickstart_model", str(ROOT / "recipes" / "quickstart_model"))
    for folder in ("recipes", "tests/golden/diagnostics")
    for file in sorted((ROOT / folder).rglob("*.yaml"))
]
SCALAR = re.compile(r"(?<=[:\-,\[] )[^\s,\[\]{}#][^,\[\]{}#\n]*")
PLAIN = """
0 1 -1 2 3 5 7 1.5 -0.0 1e300 1e999 .nan 010 0x10 1_000 9223372036854775807 9223372036854775808 true no null ~ auto
balanced x '' "" [] {} [1] 24GiB 24G 24 -3GB 1e5GiB 1:30 2024-01-02 *a << ${X} ${X:-1} '${HF_TOKEN}' "\\0" "\\e[31m"
@x `x` %x > ' " | [ ] { } hf_ \u00e9 \U0001f98a \u202e \ufeff \x07
"""
SPACED = ["!!int 1", "&a 1", "{a: 1}", "{{ x }}", "'\n'", "? a", "- a", "a: b", "# x", "\t", "a b", "- - -"]
VALUES = [*PLAIN.split(), *SPACED, "hf_" + "a1" * 15, "9" * 400, "x" * 3000, "[" * 60]
KEYS = [
    *sorted({name for section in SECTIONS.values() for name in fields(section)}),
    *("transformer", "vae", "text_encoder", "max_sequence_length", "num_inference_steps"),
]
NUMBERS = [*range(13), 16, 24, 27, 48, 64, 77, 81, 256, 512, 513, 720, 1023, 1024, 1360, 4096, 10**6, 10**9, 10**18]
MEMORY_BYTES = 200 * 2**20


def mutant(source: random.Random) -> str:
    """A recipe of the repository with one to three changes that a person, a merge or an attacker could make."""
    text = source.choice(RECIPES)
    gentle = (number, number, number, scalar, key, lines)
    kinds = gentle if source.random() < 0.6 else (scalar, key, lines, lines, chunk, other, indent)
    for _ in range(source.randint(1, 3)):
        text = source.choice(kinds)(text, source)
    return text


def scalar(text: str, source: random.Random) -> str:
    places = list(SCALAR.finditer(text))
    if not places:
        return text + source.choice(VALUES)
    place = source.choice(places)
    return text[: place.start()] + source.choice(VALUES) + text[place.end() :]


def number(text: str, source: random.Random) -> str:
    places = list(re.finditer(r"(?<!version: )(?<=[:\[ ])\d+(?=[\s,\]}])", text)) or [re.match("", text)]
    place = source.choice(places)
    assert place is not None
    return text[: place.start()] + str(source.choice(NUMBERS)) + text[place.end() :]


def key(text: str, source: random.Random) -> str:
    places = list(re.finditer(r"\w+(?=:)", text)) or [re.match("", text)]
    place = source.choice(places)
    assert place is not None
    return text[: place.start()] + source.choice(KEYS) + text[place.end() :]


def lines(text: str, source: random.Random) -> str:
    rows = text.split("\n")
    start = source.randrange(len(rows))
    end = min(len(rows), start + source.randint(0, 3))
    piece, to = rows[start:end], source.randrange(len(rows))
    if source.random() < 0.5:
        del rows[start:end]
    return "\n".join(rows[:to] + piece + rows[to:])


def chunk(text: str, source: random.Random) -> str:
    start = source.randint(0, len(text))
    end = min(len(text), start + source.randint(0, 12))
    return text[:start] + source.choice(["", text[start:end] * 2, *VALUES]) + text[end:]


def other(text: str, source: random.Random) -> str:
    rows, strange = text.split("\n"), source.choice(RECIPES).split("\n")
    at, start = source.randrange(len(rows)), source.randrange(len(strange))
    return "\n".join(rows[:at] + strange[start : start + source.randint(1, 4)] + rows[at:])


def indent(text: str, source: random.Random) -> str:
    rows = text.split("\n")
    at = source.randrange(len(rows))
    rows[at] = source.choice(["  ", " ", "\t", "", "    "]) + rows[at].lstrip(source.choice(["", " "]))
    return "\n".join(rows)


def judge(file: Path, data: bytes, quickly: Callable[..., Any]) -> None:
    """Compile a text and look at every finding; the cost is that of the whole."""
    file.write_bytes(data)

    def check() -> tuple[Compiled, list[Finding]]:
        compiled = compile_recipe(file)
        findings = locate(compiled.diagnostics, compiled.document, str(file), strict=False)
        as_text(findings, colour=False)
        assert (compiled.plan_json is not None) is compiled.is_valid
        return compiled, findings

    compiled, findings = quickly(check)
    count = len(re.split(b"\r\n|\r|\n", data))
    for finding in findings:
        diagnostic, span = finding.diagnostic, finding.span
        assert diagnostic.code in CODES
        assert diagnostic.message
        assert diagnostic.message.isprintable()
        if finding.file == str(file):
            assert 1 <= span.line <= span.end_line <= count
            assert span.column >= 1
    assert compiled.is_valid is not any(finding.diagnostic.severity == "error" for finding in findings)


def judge_many(file: Path, seed: int, count: int, quickly: Callable[..., Any]) -> None:
    source = random.Random(seed)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    for number in range(count):
        text = mutant(source)
        try:
            judge(file, text.encode("utf-8", "surrogatepass"), quickly)
        except Exception as error:
            raise AssertionError(f"seed {seed}, input {number}:\n{text}") from error
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before < MEMORY_BYTES


def test_mutants(tmp_path: Path, quickly: Callable[..., Any]) -> None:
    judge_many(tmp_path / "r.yaml", seed=0, count=300, quickly=quickly)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 16))
def test_many_mutants(seed: int, tmp_path: Path, quickly: Callable[..., Any]) -> None:
    judge_many(tmp_path / "r.yaml", seed, 1_000, quickly)


ANY = st.one_of(
    st.binary(max_size=120),
    st.text(max_size=120).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.lists(st.sampled_from([*KEYS, *VALUES, ": ", ", ", "\n", "\n  ", "{", "}", "[", "]", "- "]), max_size=30).map(
        lambda parts: ("version: 1\nmodel: {id: black-forest-labs/FLUX.1-dev}\n" + "".join(parts)).encode()
    ),
)


@pytest.mark.slow
@settings(max_examples=5_000, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=ANY)
def test_any_bytes(data: bytes, tmp_path: Path, quickly: Callable[..., Any]) -> None:
    judge(tmp_path / "r.yaml", data, quickly)
