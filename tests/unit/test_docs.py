"""The documentation is current: generated pages, links inside the repository, the names of files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from dcompile.cli.rule_pages import EMITTED, HEADINGS, PAGES, pages
from dcompile.codes import CODES
from dcompile.rules.catalog import FIT_RULES, RULES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "compiler" / "docs"
WRITTEN = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"`((?:[\w-]+/)*[\w-]+\.(?:py|json|md|yaml|toml))`")


def anchors(file: Path) -> set[str]:
    """The names that a page's headings can be linked by."""
    titles = re.findall(r"^#+ (.+)$", FENCE.sub("", file.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken_links(file: Path) -> list[str]:
    found = []
    for link in LINK.findall(FENCE.sub("", file.read_text(encoding="utf-8"))):
        if link.startswith(("http:", "https:", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        target = file.parent / path if path else file
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            found.append(link)
    return found


def test_rule_pages_are_current() -> None:
    written = {file.name: file.read_text(encoding="utf-8") for file in PAGES.glob("*.md")}
    assert written == pages(), "stale: run `python -m dcompile.cli.rule_pages`"


def test_every_code_without_a_rule_is_explained() -> None:
    assert set(EMITTED) == set(CODES) - {rule.code for rule in (*RULES, *FIT_RULES)}


def test_rule_pages_have_every_heading() -> None:
    made = pages()
    for rule in (*RULES, *FIT_RULES):
        for heading in HEADINGS:
            assert f"**{heading}.** " in made[f"{rule.code}.md"], rule.code


@pytest.mark.parametrize("file", WRITTEN, ids=lambda file: file.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(file: Path) -> None:
    assert broken_links(file) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One\n\n[a](gone.md) [b](#one) [c](#two) [d](page.md)\n\n```\n[e](code.md)\n```\n")
    assert broken_links(page) == ["gone.md", "#two"]


@pytest.mark.parametrize("name", ["architecture", "adding-a-rule", "adding-a-model", "adding-a-strategy"])
def test_files_that_are_named_exist(name: str) -> None:
    folders = ("compiler", "tests", "recipes", "schemas")
    known = [f"/{file.relative_to(ROOT).as_posix()}" for folder in folders for file in (ROOT / folder).rglob("*.*")]
    named = set(NAME.findall((DOCS / f"{name}.md").read_text(encoding="utf-8"))) - {"plan.json", "config.json"}
    assert named
    assert [part for part in sorted(named) if not any(file.endswith(f"/{part}") for file in known)] == []


@pytest.mark.parametrize("folder", ["compiler", "recipes", "schemas"])
def test_nothing_refers_to_notes_that_are_not_here(folder: str) -> None:
    """Hardware facts name a note of ours as the way to a vendor's sheet; everything else cites rows and sources."""
    notes = re.compile(r"\b(rules|cases|DESIGN)\.md\b|\.\./shared\b")
    files = [file for kind in ("py", "md", "json", "yaml") for file in (ROOT / folder).rglob(f"*.{kind}")]
    assert files
    assert [file for file in files if notes.search(file.read_text(encoding="utf-8"))] == []
