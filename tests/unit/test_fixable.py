"""`check --fix` makes the edits that `cli/fixable.py` names, and no others.

A case is a recipe in `tests/golden/fixes/<code>/`, and beside it `<name>.fixed.yaml`: the same text, mended.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
import yaml
from dcompile.cli.entries import Entries
from dcompile.cli.fix import fixed
from dcompile.cli.fixable import FIXED, NOT_FIXED
from dcompile.cli.rule_pages import pages
from dcompile.codes import CODES
from dcompile.core.diagnostics import Severity
from dcompile.driver import Compiled, compile_recipe

GOLDEN = Path(__file__).parents[1] / "golden"
CASES = sorted(file for file in (GOLDEN / "fixes").glob("*/*.yaml") if not file.name.endswith(".fixed.yaml"))
FIRING = sorted(file for file in (GOLDEN / "diagnostics").glob("*/*.yaml") if not file.name.endswith(".ok.yaml"))
EXPECT = re.compile(r"[ ]*# expect: .*")


def mend(file: Path, text: str) -> str:
    new, _ = fixed(str(file), text.encode(), lambda candidate: compile_recipe(file, text=candidate))
    return new.decode()


def dressings(text: str) -> dict[str, str]:
    """A text as other editors save it."""
    return {"crlf": text.replace("\n", "\r\n"), "bom": f"\ufeff{text}", "no end": text.rstrip("\n")}


def judged(file: Path, text: str) -> Compiled:
    return compile_recipe(file, text=text.encode())


def codes_of(compiled: Compiled, severity: Severity | None = None) -> Counter[str]:
    return Counter(item.code for item in compiled.diagnostics if severity in (None, item.severity))


def comments(text: str) -> list[str]:
    """The comments of a text in order; the cases have no `#` elsewhere."""
    return re.findall(r"#.*", text)


def test_every_code_is_decided() -> None:
    assert FIXED.keys() | NOT_FIXED.keys() == CODES.keys()
    assert not FIXED.keys() & NOT_FIXED.keys()
    assert {file.parent.name for file in CASES} == FIXED.keys()


def test_the_index_of_codes_shows_it() -> None:
    rows = [line for line in pages()["README.md"].splitlines() if line.startswith("| [")]
    assert len(rows) == len(CODES)
    for row in rows:
        cells = [cell.strip() for cell in row.strip("|").split(" | ")]
        assert len(cells) == 4, row
        assert cells[3].startswith("**yes**: ") == (cells[0][1:6] in FIXED), row


@pytest.mark.parametrize("file", CASES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_one_right_edit(file: Path) -> None:
    code, text = file.parent.name, file.read_text(encoding="utf-8")
    right = file.with_name(f"{file.stem}.fixed.yaml").read_text(encoding="utf-8")
    before, after = judged(file, text), judged(file, right)
    assert code in codes_of(before)
    assert mend(file, text) == right
    assert codes_of(after)[code] == 0
    assert codes_of(after, Severity.ERROR) <= codes_of(before, Severity.ERROR)
    assert [line for line in comments(text) if "dcompile:" not in line] == comments(right)
    assert mend(file, right) == right


@pytest.mark.parametrize("dress", ["crlf", "bom", "no end"])
@pytest.mark.parametrize("file", CASES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_the_same_however_it_is_saved(file: Path, dress: str) -> None:
    right = file.with_name(f"{file.stem}.fixed.yaml").read_text(encoding="utf-8")
    made = mend(file, dressings(file.read_text(encoding="utf-8"))[dress])
    # An entry that is taken from the end leaves the line break of the line before.
    expected = dressings(right)[dress]
    assert made == expected or (dress == "no end" and made == right)


@pytest.mark.parametrize("file", FIRING, ids=lambda file: f"{file.parent.name}/{file.name}")
@pytest.mark.parametrize("dressed", [True, False], ids=["with comments", "without"])
def test_every_recipe_that_fires_a_rule(file: Path, dressed: bool) -> None:
    """What carries an edit is a code that says so; an edit that is made mends its finding and hurts nothing."""
    text = file.read_text(encoding="utf-8")
    text = text if dressed else EXPECT.sub("", text)
    before = judged(file, text)
    assert {item.code for item in before.diagnostics if item.fix is not None} <= FIXED.keys()
    once = mend(file, text)
    after = judged(file, once)
    assert codes_of(after, Severity.ERROR) <= codes_of(before, Severity.ERROR)
    assert codes_of(after) < codes_of(before) or once == text
    assert comments(once) == comments(text)
    assert mend(file, once) == once


TEXT = """# top
run:
  a: 1  # one
  args:
    # above
    b: 2
  list:
    - c: 3
      d: 4
flow: {e: 5, f: {g: 6}, h: [7]}  # end
last: >
  text
"""


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        (("run", "args", "b"), "  args:\n    # above\n    b: 2\n", None),  # the comment would be lost
        (("run", "a"), "  a: 1  # one\n", None),
        (("run", "list", 0, "d"), "      d: 4\n", ""),
        (("run", "list", 0, "c"), "- c: 3\n      d: 4", None),  # the line begins the list's entry
        (("flow", "e"), "{e: 5, f", "{f"),
        (("flow", "h"), "}, h: [7]}", "}}"),
        (("flow", "f", "g"), "e: 5, f: {g: 6}, h", "e: 5, h"),
        (("flow",), "flow: {e: 5, f: {g: 6}, h: [7]}  # end\n", None),
        (("last",), "last: >\n  text\n", None),
        (("gone",), "", None),
    ],
)
def test_taking_out(path: tuple[str | int, ...], old: str, new: str | None) -> None:
    edits = Entries(TEXT).take_out(path)
    if new is None:
        assert edits is None
        return
    assert edits is not None
    assert made(TEXT, edits) == TEXT.replace(old, new)


@pytest.mark.parametrize(
    ("path", "value", "old", "new"),
    [
        (("run", "x"), "1", "      d: 4\n", "      d: 4\n  x: 1\n"),
        (("run", "args", "x", "y"), "1", "    b: 2\n", "    b: 2\n    x: {y: 1}\n"),
        (("run", "list", 0, "x"), "1", "      d: 4\n", "      d: 4\n      x: 1\n"),
        (("flow", "x"), "a/b.c", "[7]}", "[7], x: a/b.c}"),
        (("flow", "f", "x"), "1", "{g: 6}", "{g: 6, x: 1}"),
        (("flow", "x"), "a, b", "", None),  # between braces that is two
        (("flow", "e"), "1", "", None),
        (("flow", "e", "x"), "1", "", None),
        (("x",), "1", "", None),  # behind a text in `>`
    ],
)
def test_putting_in(path: tuple[str | int, ...], value: str, old: str, new: str | None) -> None:
    edits = Entries(TEXT).put_in(path, value)
    if new is None:
        assert edits is None
        return
    assert edits is not None
    assert made(TEXT, edits) == TEXT.replace(old, new)


def made(text: str, edits: list[tuple[int, int, str]]) -> str:
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    yaml.safe_load(text)
    return text


def test_what_a_variable_says_is_not_mended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODEL", "black-forest-labs/FLUX.1-dv")
    text = "version: 1\nmodel: {id: '${MODEL}'}\nrun: {prompts: [a]}\n"
    assert "DC301" in codes_of(judged(tmp_path / "r.yaml", text))
    assert mend(tmp_path / "r.yaml", text) == text


def test_an_edit_that_brings_an_error_is_taken_back(tmp_path: Path) -> None:
    """The component that was meant has 24 heads; the other edit is made all the same."""
    head = "version: 1\nmodel: {id: black-forest-labs/FLUX.1-dev}\ndevices: {gpu: h100-sxm-80gb, per_node: 5}\n"
    text = (
        head + "parallel: {components: {transfomer: {tensor: 5}}}\nrun: {prompts: [a], args: {max_sequence_lenth: 8}}\n"
    )
    assert mend(tmp_path / "r.yaml", text) == text.replace("lenth", "length")
