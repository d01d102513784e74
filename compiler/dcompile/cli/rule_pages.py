"""Writes `compiler/docs/rules/`, one page a code and an index: `python -m dcompile.cli.rule_pages`.

The pages of rules come from their docstrings; those of faults that the reading stages find come from `EMITTED`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from dcompile.codes import CODES
from dcompile.rules.catalog import FIT_RULES, RULES

PAGES = Path(__file__).parents[2] / "docs" / "rules"
HEADINGS = ("What it checks", "Why it matters", "Example", "Use instead", "Source")

FAMILIES = {
    "DC1": ("Text", "found by `source/`"),
    "DC2": ("Shape", "found by `recipe/`"),
    "DC3": ("Facts", "found by `facts/`, or by a rule in `rules/model/`"),
    "DC4": ("Parallelism", "found by a rule in `rules/parallel/`"),
    "DC5": ("Memory", "found by a rule in `rules/memory/`"),
    "DC6": ("Advice", "found by a rule in `rules/advice/`"),
}

EMITTED: dict[str, tuple[str, str]] = {
    "DC101": ("The text is not YAML.", "what the message says; text that starts with a sign of YAML goes in quotes"),
    "DC102": ("The file is larger than 1 MiB or holds more than 20,000 values.", "the prompts in a file of their own"),
    "DC103": ("The file is not UTF-8.", "the same text, saved as UTF-8"),
    "DC104": ("The text holds a control character or an invisible one.", "an escape in double quotes, or nothing"),
    "DC105": ("The file has the markers of a merge conflict.", "one of the two sides, without the markers"),
    "DC106": ("A tab stands where spaces must.", "spaces"),
    "DC107": ("Values are nested more than 50 deep.", "a flatter recipe"),
    "DC108": ("The file holds several documents.", "one recipe in a file, without a second `---`"),
    "DC109": ("The file is empty.", "at least `version` and `model`; `dcompile init --model ID` writes a recipe"),
    "DC110": ("The file is a list, a text or a number, not a mapping.", "`key: value` lines"),
    "DC111": ("A key is given twice.", "one of the two; readers differ on which they keep"),
    "DC112": ("A key is not text.", "a name before the `:`"),
    "DC113": ("The text has an anchor (`&name`) or an alias (`*name`).", "the value itself, or `extends: base.yaml`"),
    "DC114": ("The text has a merge key (`<<`).", "the keys themselves, or `extends: base.yaml`"),
    "DC115": ("The text has a tag (`!name`).", "the value without it"),
    "DC116": ("The text has a directive (`%...`).", "the recipe without that line"),
    "DC117": ("A number is one that readers take differently (`010`, `0x10`, `1_000`).", "the plain decimal"),
    "DC118": ("A number is not finite or too large.", "a smaller number, or quotes where text is meant"),
    "DC119": ("A template (`{{ ... }}`) stands in the file; it would not be filled in.", "the value itself"),
    "DC121": ("The base file of `extends` is not there or cannot be read.", "a name relative to the file, or `--root`"),
    "DC122": ("The name of another file is absolute or is no YAML file.", "a relative name that ends in `.yaml`"),
    "DC123": ("`extends` goes round in a circle.", "a base that does not lead back"),
    "DC124": ("`extends` goes deeper than 16 files.", "fewer bases"),
    "DC125": (
        "The file that `devices` names cannot be used.",
        "a mapping, or the name of a `.yaml` file",
    ),
    "DC126": ("A variable (`${NAME}`) is not set.", "`${NAME:-default}`, or set it in the environment"),
    "DC127": ("A variable stands where none may, or names a secret.", "the value; variables are for paths and ids"),
    "DC128": ("What follows a `$` is not a variable.", "`${NAME}` or `${NAME:-default}`"),
    "DC131": ("A `--set` has no path or no value.", "`--set run.seed=7`"),
    "DC132": ("The path of a `--set` leads nowhere.", "an index that the list has; replace a plain value whole"),
    "DC201": ("A section has no such key.", "the key that the hint names"),
    "DC202": ("A key that is needed is missing.", "the key; the diagnostic points at its section"),
    "DC203": ("A value is of the wrong type.", "a value of the type that the message names"),
    "DC204": ("A value is none of those that the key takes.", "one of those that the message names"),
    "DC205": ("A number is outside its range.", "a number inside the limits that the message names"),
    "DC206": ("A key has nothing under it.", "a value, or a recipe without the key"),
    "DC207": ("A key belongs somewhere else.", "the path that the hint names"),
    "DC208": ("A size of memory has no unit, or an unclear one.", "`24GiB` or `24GB`"),
    "DC209": ("The file holds a token.", "`HF_TOKEN` in the environment; revoke the token, the file may be shared"),
    "DC210": ("`model` has both `id` and `path`, or neither.", "one of the two"),
    "DC301": ("The model is not known without a network.", "an id of `dcompile models`, `like: <known id>`, or `path`"),
    "DC302": ("The device is not known.", "a name that `dcompile hardware` lists"),
    "DC303": ("The model's folder cannot be used.", "a diffusers folder with its configurations and weights"),
    "DC305": ("The prompts cannot be used.", "a list, or a `.txt`, `.jsonl` or `.csv` file; a seed for each prompt"),
    "DC307": ("`devices.memory` is more than the device has.", "the recipe without it, or the right device"),
}
"""What is wrong, and what to write instead, for every code that no rule has. `tests/unit/test_docs.py` compares."""


def _rule_docs() -> dict[str, str]:
    return {rule.code: sys.modules[rule.check.__module__].__doc__ or "" for rule in (*RULES, *FIT_RULES)}


def _paragraph(text: str) -> str:
    """A paragraph of a docstring on one line, its heading in bold."""
    line = " ".join(text.split())
    for heading in HEADINGS:
        if line.startswith(f"{heading}: "):
            rest = line[len(heading) + 2 :]
            return f"**{heading}.** {rest[0].upper() + rest[1:]}"
    return line


def _page(code: str, doc: str | None) -> str:
    family, where = FAMILIES[code[:3]]
    if doc is not None:
        body = [_paragraph(part) for part in doc.strip().split("\n\n")]
    else:
        wrong, instead = EMITTED[code]
        body = [wrong, f"**Use instead.** {instead[0].upper() + instead[1:]}."]
    return "\n\n".join([f"# {code} {CODES[code]}", *body, f"{family}: {where}. [All codes](README.md)"]) + "\n"


def pages() -> dict[str, str]:
    """Every page by file name; `README.md` is the index."""
    docs = _rule_docs()
    found = {f"{code}.md": _page(code, docs.get(code)) for code in sorted(CODES)}
    lines = ["# Codes", "", "Written by `python -m dcompile.cli.rule_pages`; `dcompile explain DC401` prints a rule."]
    for start, (family, where) in FAMILIES.items():
        lines += ["", f"## {family} ({start}xx)", "", f"{where[0].upper() + where[1:]}.", ""]
        for code in (code for code in sorted(CODES) if code.startswith(start)):
            doc = docs.get(code)
            first = _paragraph(doc.strip().split("\n\n")[0]) if doc is not None else EMITTED[code][0]
            lines.append(f"- [{code}]({code}.md) `{CODES[code]}`: {first}")
    return {**found, "README.md": "\n".join(lines) + "\n"}


def main() -> None:
    """Write the pages, and remove those of codes that are gone."""
    PAGES.mkdir(parents=True, exist_ok=True)
    made = pages()
    for old in PAGES.glob("*.md"):
        if old.name not in made:
            old.unlink()
    for name, text in made.items():
        (PAGES / name).write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
