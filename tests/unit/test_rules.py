"""Every rule fires where its cases say and nowhere else.

A case is a recipe in `tests/golden/diagnostics/<code>/`. A comment `# expect: DC401` ends the line where the
diagnostic has to be (several codes are separated by commas), and the whole set of (code, line) is compared. A file
`<name>.ok.yaml` is a near miss: the closest recipe that the rule accepts.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

import dcompile.rules
import pytest
from dcompile.cli.render import locate
from dcompile.codes import CODES
from dcompile.core.diagnostics import Severity
from dcompile.driver import compile_recipe
from dcompile.recipe.model import Parallel
from dcompile.rules.catalog import FIT_RULES, JOB_RULES, RULES, run_rules
from dcompile.rules.rule import subject_of

GOLDEN = Path(__file__).parents[1] / "golden" / "diagnostics"
CASES = sorted(GOLDEN.glob("*/*.yaml"))
ALL = (*RULES, *FIT_RULES)
EXPECTED = re.compile(r"# expect: ((?:DC\d{3}(?:, )?)+)$")
HEADINGS = ("What it checks:", "Why it matters:", "Example:", "Use instead:", "Source:")


def name_of(file: Path) -> str:
    return f"{file.parent.name}/{file.name}"


def expected(file: Path) -> set[tuple[str, int]]:
    found = set()
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        match = EXPECTED.search(line)
        assert match or "expect:" not in line, f"{file}:{number} is not `# expect: DCxxx`"
        if match:
            found |= {(code, number) for code in match[1].split(", ")}
    return found


@pytest.mark.parametrize("file", CASES, ids=name_of)
def test_diagnostics_are_on_their_lines(file: Path) -> None:
    compiled = compile_recipe(file)
    findings = locate(compiled.diagnostics, compiled.document, str(file), strict=False)
    assert {finding.file for finding in findings} <= {str(file)}
    found = {(finding.diagnostic.code, finding.span.line) for finding in findings}
    assert found == expected(file), [finding.diagnostic.message for finding in findings]
    for finding in findings:
        assert finding.diagnostic.message
        assert finding.diagnostic.hint


@pytest.mark.parametrize("file", CASES, ids=name_of)
def test_rules_about_the_job_find_the_same_under_any_plan(file: Path) -> None:
    """`auto` asks them once for all candidates."""
    compiled = compile_recipe(file)
    if compiled.recipe is None or compiled.facts is None:
        return  # nothing that a rule could look at
    name = compiled.facts.model.denoisers[0]
    plans: tuple[dict[str, object], ...] = (
        {"data": 2},
        {"tensor": 2},
        {"context": {"ulysses": 2, "uneven": True}},
        {"device_map": {name: [0, 1]}},
        {"components": {name: {"offload": "model"}, "vae": {"device": 1}}},
    )
    alone, *found = (
        run_rules(JOB_RULES, subject_of(compiled.recipe.model_copy(update={"parallel": plan}), compiled.facts))
        for plan in (Parallel(), *(Parallel.model_validate(plan) for plan in plans))
    )
    assert found == [alone] * len(plans)


@pytest.mark.parametrize("file", CASES, ids=name_of)
def test_a_case_is_about_its_code(file: Path) -> None:
    codes = {code for code, _ in expected(file)}
    assert (file.parent.name in codes) != file.name.endswith(".ok.yaml")


@pytest.mark.parametrize("code", sorted({rule.code for rule in ALL}))
def test_every_rule_has_a_case_and_a_near_miss(code: str) -> None:
    names = [file.name for file in CASES if file.parent.name == code]
    assert [name for name in names if not name.endswith(".ok.yaml")], f"no case fires {code}"
    assert [name for name in names if name.endswith(".ok.yaml")], f"no near miss of {code}"


def test_every_case_belongs_to_a_rule() -> None:
    assert {file.parent.name for file in CASES} == {rule.code for rule in ALL}


def test_codes_are_known_and_used_once() -> None:
    used = Counter(rule.code for rule in ALL)
    assert set(used) <= set(CODES)
    assert max(used.values()) == 1


def test_the_kind_of_a_rule_is_that_of_its_code() -> None:
    families = {"DC3": "model", "DC4": "parallel", "DC5": "memory", "DC6": "advice"}
    for rule in ALL:
        module = rule.check.__module__
        family, name = module.split(".")[-2:]
        assert family == families[rule.code[:3]], module
        if rule.code[:3] != "DC3":
            assert name.replace("_", "-") == CODES[rule.code], module


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.code)
def test_a_rule_has_its_page(rule: object) -> None:
    page = sys.modules[rule.check.__module__].__doc__ or ""  # type: ignore[attr-defined]
    places = [page.find(f"\n{heading}") for heading in HEADINGS]
    assert -1 not in places, [heading for heading, place in zip(HEADINGS, places, strict=True) if place < 0]
    assert places == sorted(places)
    assert page.splitlines()[0].endswith(".")


def test_every_rule_is_in_the_catalogue() -> None:
    folder = Path(dcompile.rules.__file__).parent
    files = {f"{file.parent.name}.{file.stem}" for file in folder.glob("*/*.py") if file.stem != "__init__"}
    assert files == {".".join(rule.check.__module__.split(".")[-2:]) for rule in ALL}


def test_an_error_stops_the_plan_and_a_warning_does_not() -> None:
    stopped, going = compile_recipe(GOLDEN / "DC401" / "tensor.yaml"), compile_recipe(GOLDEN / "DC408" / "half.yaml")
    assert stopped.plan is None
    assert not stopped.is_valid
    assert [found.severity for found in going.diagnostics] == [Severity.WARNING]
    assert going.is_valid


def test_severities_of_one_rule_differ_by_how_sure_it_is() -> None:
    found = {
        name: [diagnostic.severity for diagnostic in compile_recipe(GOLDEN / f"{name}.yaml").diagnostics]
        for name in ("DC308/flux-width", "DC308/wan-height", "DC501/inside-the-margin", "DC501/weights", "DC603/pcie")
    }
    assert found == {
        "DC308/flux-width": [Severity.WARNING],
        "DC308/wan-height": [Severity.ERROR],
        "DC501/inside-the-margin": [Severity.WARNING],
        "DC501/weights": [Severity.ERROR],
        "DC603/pcie": [Severity.ADVICE],
    }
