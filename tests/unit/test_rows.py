"""The row tables in `compiler/docs/rows/` are whole: every row once, kept by codes and tests that exist."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from dcompile.codes import CODES

ROOT = Path(__file__).parents[2]
ROWS = ROOT / "compiler" / "docs" / "rows"
CASES = ROOT / "tests" / "cases"
COUNTS = {
    "GEN": 17, "CPC": 13, "CPA": 21, "CPS": 14, "CPB": 23, "TPC": 36, "CMB": 9, "RNG": 8, "DP": 10, "PDM": 19,
    "MDM": 11, "OFF": 11, "QNT": 9, "ADP": 6, "CCH": 6, "CMP": 5, "TEP": 7, "CALL": 6, "STR": 7,
}  # fmt: skip
"""Rows of each prefix; they are numbered from 01 without gaps."""

# Rows that are advice, or that say that something works.
MILD = {
    "GEN": (13, 15, 16), "CPC": (11, 12, 13), "CPA": (17, 21), "CPS": (8, 14), "CPB": (12, 21, 22),
    "TPC": (30, 31, 34, 36), "CMB": (3, 9), "RNG": (4,), "DP": (9, 10), "PDM": (15, 17), "MDM": (10, 11), "OFF": (10,),
    "QNT": (9,), "ADP": (2, 4, 6), "CCH": (3, 4, 5), "CMP": (1, 5), "TEP": (5, 6), "CALL": (1, 3, 6),
    "STR": (1, 2, 3, 6, 7),
}  # fmt: skip

LETTERS = {
    "a": (1, 21), "b": (22, 31), "c": (32, 47), "d": (48, 54), "e": (55, 63), "f": (64, 75), "g": (76, 85),
    "h": (86, 93), "i": (94, 110), "j": (111, 125), "k": (126, 133), "l": (134, 160),
}  # fmt: skip
"""Cases of each letter: all numbers in the range but those that leave 3 when divided by 4."""

LINE = re.compile(r"^\| ([A-Z]+)-(\d+) \| (.+) \| (.+) \|$")
CODE = re.compile(r"\bDC\d{3}\b")
TEST = re.compile(r"`?(tests/[\w/]+\.py)::(\w+)`?")
PREFIXES = sorted(file.stem for file in ROWS.glob("*.md") if file.stem != "README")


def table(prefix: str) -> list[tuple[int, str, str]]:
    """Number, content and keeper of each row of a prefix, in the file's order."""
    found = []
    for line in (ROWS / f"{prefix}.md").read_text(encoding="utf-8").splitlines():
        match = LINE.match(line)
        assert match or not re.match(r"^\|\s*[A-Z]+-\d", line), f"not a row of three cells: {line}"
        if match:
            assert match[1] == prefix, line
            found.append((int(match[2]), match[3], match[4]))
    return found


@cache
def functions(path: str) -> frozenset[str]:
    """The test functions of a file."""
    file = ROOT / path
    return (
        frozenset(re.findall(r"^def (test_\w+)", file.read_text(encoding="utf-8"), re.M))
        if file.is_file()
        else frozenset()
    )


def fault(prefix: str, number: int, kept_by: str) -> str | None:
    """What is wrong with a row's keeper."""
    codes, tests = CODE.findall(kept_by), TEST.findall(kept_by)
    for code in codes:
        if code not in CODES:
            return f"{code} does not exist"
    for path, name in tests:
        if name not in functions(path):
            return f"{path}::{name} does not exist"
    is_mild = number in MILD[prefix]
    if "not sayable:" in kept_by and not (codes or tests):
        return "`not sayable` needs the code or the test that shows it"
    if not (codes or tests) and not (is_mild and "documentation" in kept_by):
        return "nothing keeps it"
    return None


def test_the_numbers_add_up() -> None:
    assert sum(COUNTS.values()) == 238
    assert set(MILD) == set(COUNTS)
    assert set(PREFIXES) == set(COUNTS)
    assert sum(len(numbers(letter)) for letter in LETTERS) == 120


@pytest.mark.parametrize("prefix", PREFIXES)
def test_every_row_is_there_once(prefix: str) -> None:
    assert [number for number, _, _ in table(prefix)] == list(range(1, COUNTS[prefix] + 1))


@pytest.mark.parametrize("prefix", PREFIXES)
def test_every_row_is_kept(prefix: str) -> None:
    faults = {f"{prefix}-{number:02d}": fault(prefix, number, kept_by) for number, _, kept_by in table(prefix)}
    assert {row: what for row, what in faults.items() if what} == {}


@pytest.mark.parametrize("prefix", PREFIXES)
def test_rows_are_short(prefix: str) -> None:
    assert [number for number, says, _ in table(prefix) if not 3 < len(says) <= 140] == []


def test_a_bad_keeper_is_found() -> None:
    assert fault("CPS", 1, "DC999") == "DC999 does not exist"
    assert fault("CPS", 1, "`tests/unit/test_rows.py::test_gone`") is not None
    assert fault("CPS", 1, "documentation") == "nothing keeps it"
    assert fault("CPS", 8, "documentation") is None
    assert fault("CPS", 1, "not sayable: no key") is not None
    assert fault("CPS", 1, "DC402, `tests/unit/test_rows.py::test_a_bad_keeper_is_found`") is None


def numbers(letter: str) -> list[int]:
    first, last = LETTERS[letter]
    return [number for number in range(first, last + 1) if number % 4 != 3]


@pytest.mark.parametrize("letter", LETTERS)
def test_every_case_has_its_test(letter: str) -> None:
    found: list[int] = []
    for file in sorted(CASES.glob(f"test_{letter}_*.py")):
        named = re.findall(r"^def test_case_(\d{3})_\w+\(", file.read_text(encoding="utf-8"), re.M)
        assert named, f"{file.name} has no `test_case_NNN_...`"
        found += map(int, named)
    assert sorted(set(found)) == numbers(letter)
