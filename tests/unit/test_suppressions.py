"""Findings that the recipe's author accepts, and says why."""

from __future__ import annotations

from pathlib import Path

import pytest
from dcompile.cli.render import locate
from dcompile.core.diagnostics import Severity
from dcompile.driver import compile_recipe
from dcompile.source.parse import parse

# A warning (DC408, idle devices) on line 3, an error about memory (DC501) on line 7 of the second recipe.
IDLE = "version: 1\nmodel: {id: black-forest-labs/FLUX.1-dev}\ndevices: {gpu: h100-sxm-80gb, per_node: 2}%s\n%s"
RUN = "run: {prompts: [a], height: 1024, width: 1024}\n"
SMALL = "version: 1\nmodel: {id: black-forest-labs/FLUX.1-dev}\n%sdevices: {kind: cuda, memory: 16GiB}%s\n" + RUN


def found(folder: Path, text: str, **files: str) -> list[tuple[str, str, int]]:
    """Code, severity and line of every finding."""
    for name, content in files.items():
        (folder / f"{name}.yaml").write_text(content, encoding="utf-8")
    file = folder / "r.yaml"
    file.write_text(text, encoding="utf-8")
    done = compile_recipe(file)
    findings = locate(done.diagnostics, done.document, str(file), strict=False)
    assert done.is_valid is not any(finding.diagnostic.severity is Severity.ERROR for finding in findings)
    return [(f.diagnostic.code, f.diagnostic.severity.value, f.span.line) for f in findings]


def test_without_a_comment_there_are_findings(tmp_path: Path) -> None:
    assert [code for code, severity, _ in found(tmp_path, IDLE % ("", RUN)) if severity == "warning"] == ["DC408"]
    assert ("DC501", "error") in [(code, severity) for code, severity, _ in found(tmp_path, SMALL % ("", ""))]


def test_a_warning_is_silenced_on_its_line_and_from_above(tmp_path: Path) -> None:
    comment = "# dcompile: ignore DC408 -- the other is for the display"
    line = next(line for code, _, line in found(tmp_path, IDLE % ("", RUN)) if code == "DC408")
    assert line == 3
    assert found(tmp_path, IDLE % ("  " + comment, RUN)) == []
    lines = (IDLE % ("", RUN)).split("\n")
    assert found(tmp_path, "\n".join([*lines[:2], comment, "# and a word", "", *lines[2:]])) == []


def test_an_estimate_of_memory_is_silenced_though_it_is_an_error(tmp_path: Path) -> None:
    before = found(tmp_path, SMALL % ("", ""))
    codes = sorted({code for code, _, _ in before})
    lines = {line for _, _, line in before}
    assert lines == {3}
    comment = f"  # dcompile: ignore {', '.join(codes)} -- measured, it fits"
    after = found(tmp_path, SMALL % ("", comment))
    assert [item for item in after if item[1] == "error"] == []


def test_an_unused_comment_is_a_warning(tmp_path: Path) -> None:
    text = IDLE % ("  # dcompile: ignore DC408, DC603 -- both", RUN)
    assert found(tmp_path, text) == [("DC351", "warning", 3)]
    text = SMALL % ("# dcompile: ignore DC408 -- nothing to ignore below\n", "")
    assert "DC351" not in [code for code, _, _ in found(tmp_path, text)]  # DC408 is looked for where the job fits


@pytest.mark.parametrize(
    ("error", "code", "is_asked"),
    [
        ("run: {prompts: [a], steps: 0x}", "DC604", False),  # text: no rule is asked
        ("run: {prompts: [a], args: {nothing: 1}}", "DC604", True),
        ("run: {prompts: [a], args: {nothing: 1}}", "DC603", True),
        ("run: {prompts: [a], args: {nothing: 1}}", "DC408", False),  # asked where the rest is right
        ("run: {prompts: [a], args: {nothing: 1}}", "DC503", False),
        ("run: {prompts: [a], args: {nothing: 1}}", "DC309", False),  # asked again for the rows of a file
        ("parallel: {tensor: 5}\nrun: {prompts: [a]}", "DC604", True),
        ("parallel: {tensor: 5}\nrun: {prompts: [a]}", "DC603", False),  # about a plan that cannot be
        ("parallel: auto\nrun: {prompts: [a], args: {nothing: 1}}", "DC604", True),
        ("parallel: auto\nrun: {prompts: [a], args: {nothing: 1}}", "DC603", False),
        ("parallel: {auto: {fixed: {tensor: 7}}}\nrun: {prompts: [a]}", "DC604", False),  # no plan was tried
        ("components: {transformer: {quantize: {method: torchao, type: x}}}\nrun: {prompts: [a]}", "DC604", True),
    ],
)
def test_an_unused_comment_is_told_beside_an_error_where_its_rule_was_asked(
    error: str, code: str, is_asked: bool, tmp_path: Path
) -> None:
    text = "version: 1\nmodel: {id: black-forest-labs/FLUX.1-dev}\n"
    text += f"devices: {{gpu: h100-sxm-80gb, per_node: 8}}  # dcompile: ignore {code} -- a reason\n{error}\n"
    said = found(tmp_path, text)
    assert "error" in [severity for _, severity, _ in said]
    assert ("DC351" in [code for code, _, _ in said]) is is_asked, said


def test_a_comment_that_is_of_use_is_not_told_beside_an_error(tmp_path: Path) -> None:
    text = "version: 1\nmodel: {id: black-forest-labs/FLUX.1-schnell}\ndevices: {gpu: h100-sxm-80gb}\n"
    text += (
        "run:\n  prompts: [a]\n  args: {nothing: 1}\n  steps: 4\n  guidance: 3  # dcompile: ignore DC604 -- a habit\n"
    )
    assert [code for code, _, _ in found(tmp_path, text)] == ["DC306"]


@pytest.mark.parametrize(
    ("comment", "code"),
    [
        ("# dcompile: ignore DC408", "DC350"),
        ("# dcompile: ignore DC408 --", "DC350"),
        ("# dcompile: ignore DC408 --  ", "DC350"),
        ("# dcompile: ignore -- a reason", "DC350"),
        ("# dcompile: ignore all -- a reason", "DC350"),
        ("# dcompile: ignore DC40 -- a reason", "DC350"),
        ("# dcompile: skip DC408 -- a reason", "DC350"),
        ("# dcompile ignore DC408 -- a reason", "DC350"),
        ("# dcompile: ignore DC999 -- a reason", "DC350"),
        ("# dcompile: ignore DC111 -- a reason", "DC352"),
        ("# dcompile: ignore DC201 -- a reason", "DC352"),
        ("# dcompile: ignore DC351 -- a reason", "DC352"),
    ],
)
def test_a_comment_that_says_too_little(tmp_path: Path, comment: str, code: str) -> None:
    assert (code, "error", 3) in found(tmp_path, IDLE % (f"  {comment}", RUN))


def test_errors_of_the_job_stay(tmp_path: Path) -> None:
    text = IDLE % ("", "parallel: {tensor: 5}  # dcompile: ignore DC401, DC407 -- try anyway\n" + RUN)
    file = tmp_path / "r.yaml"
    assert {code for code, severity, _ in found(tmp_path, text) if severity == "error"} >= {"DC401"}
    (heads,) = [item for item in compile_recipe(file).diagnostics if item.code == "DC401"]
    assert heads.hint.endswith("; an error like this cannot be ignored")


def test_a_comment_counts_in_its_own_file(tmp_path: Path) -> None:
    comment = "  # dcompile: ignore DC408 -- for the display"
    base = IDLE % (comment, RUN)
    assert found(tmp_path, "extends: base.yaml\n", base=base) == []
    devices = "gpu: h100-sxm-80gb\nper_node: 2  # dcompile: ignore DC408 -- for the display\n"
    text = "version: 1\nmodel: {id: black-forest-labs/FLUX.1-dev}\ndevices: d.yaml\n" + RUN
    without = found(tmp_path, text, d=devices.partition("  #")[0] + "\n")
    assert [code for code, _, _ in without] == ["DC408"]
    assert found(tmp_path, text, d=devices) in ([], [("DC408", "warning", 1), ("DC351", "warning", 2)])


@pytest.mark.parametrize(
    "text",
    [
        "a: '# dcompile: ignore'\n",
        'a: "x # dcompile: ignore"\n',
        "a: |\n  # dcompile: ignore\nb: 1\n",
        "a: x# dcompile:ignore\n",
        "a: [1, 2]  # see dcompile: ignore\n",
        "# dcompile recipes/r.yaml\na: 1  # dcompile ignores it\n",
    ],
)
def test_text_is_no_comment(text: str) -> None:
    document, faults = parse(text, "r.yaml")
    assert faults == ()
    assert document is not None
    assert document.suppressions == ()
