"""The line under a finding: short, safe, and the caret where the place is."""

from __future__ import annotations

from pathlib import Path

from dcompile.cli.frames import WIDTH, frame, lines_of
from dcompile.core.diagnostics import Span

TOKEN = "hf_" + "aB3" * 10


def marked(line: str, column: int, end: int) -> str:
    """What the caret of a frame stands under."""
    code, caret = frame([line], Span(1, column, 1, end))
    assert len(code) == len(code.rstrip("\n"))
    start = caret.index("^")
    return code[start : start + caret.count("^")]


def test_the_caret_is_under_the_place() -> None:
    assert marked("run: {steps: x}", 14, 15) == "x"
    assert marked("run: {steps: x}", 7, 12) == "steps"


def test_a_long_line_is_shown_around_the_place() -> None:
    line = "a: [" + "word, " * 100_000 + "WRONG, " + "word, " * 100_000
    column = line.index("WRONG") + 1
    assert marked(line, column, column + 5) == "WRONG"
    assert all(len(part) < WIDTH + 20 for part in frame([line], Span(1, column, 1, column + 5)))


def test_a_token_is_starred_without_moving_the_caret() -> None:
    line = f"a: {{b: {TOKEN}, c: WRONG}}"
    code, _ = frame([line], Span(1, 1, 1, 2))
    assert TOKEN not in code
    assert marked(line, line.index("WRONG") + 1, line.index("WRONG") + 6) == "WRONG"
    far = "x" * 500 + f" {TOKEN} " + "y" * 100
    for column in range(1, len(far)):
        assert not any(
            TOKEN[:size] in part for size in (8, 20) for part in frame([far], Span(1, column, 1, column + 1))
        )


def test_wide_characters_take_two_columns() -> None:
    _, caret = frame(["a: 猫猫 x"], Span(1, 7, 1, 8))
    assert caret == "       | " + " " * 8 + "^"
    _, caret = frame(["a: 猫猫 x"], Span(1, 4, 1, 6))
    assert caret == "       | " + " " * 3 + "^^^^"


def test_nothing_that_a_terminal_obeys_is_shown() -> None:
    code, _ = frame(["a:\t\x1b[31m\u202ex"], Span(1, 1, 1, 2))
    assert code == "     1 | a: ?[31m?x"


def test_lines_are_counted_as_the_parser_does(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_bytes(b"\xef\xbb\xbfa: 1\r\nb: 2\rc: 3\n")
    assert lines_of(str(tmp_path / "r.yaml")) == ["a: 1", "b: 2", "c: 3", ""]
    assert lines_of("--set") == []
    assert frame([], Span(1, 1, 1, 2)) == []
