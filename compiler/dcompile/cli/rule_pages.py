"""Writes `compiler/docs/rules/`, one page a code and an index: `python -m dcompile.cli.rule_pages`.

The pages of rules come from their docstrings; those of faults that the reading stages find come from `EMITTED`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from dcompile.cli.fixable import FIXED, NOT_FIXED, said_of
from dcompile.codes import CODES
from dcompile.rules.catalog import FIT_RULES, RULES

PAGES = Path(__file__).parents[2] / "docs" / "rules"
HEADINGS = ("What it checks", "Why it matters", "Example", "Use instead", "Source")

FAMILIES = {
    "DC1": ("Text", "found by `source/`"),
    "DC2": ("Shape", "found by `recipe/`"),
    "DC3": ("Facts", "found by `facts/`, or by a rule in `rules/model/`"),
    "DC35": ("Suppressions", "found by `source/suppressions.py`"),
    "DC4": ("Parallelism", "found by a rule in `rules/parallel/`, or by `plan/auto/`"),
    "DC5": ("Memory", "found by a rule in `rules/memory/`, or by `plan/auto/`"),
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
    "DC120": (
        "There are more than 100 findings of one kind; the others are not shown.",
        "those that are shown, mended",
    ),
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
    "DC350": (
        "A comment `dcompile: ignore` has no reason, no code or an unknown one.",
        "`# dcompile: ignore DC503 -- measured, it fits`, with the codes and after `--` the reason",
    ),
    "DC351": (
        "A comment `dcompile: ignore` has nothing to ignore: on its line no such finding is left.",
        "the recipe without the comment",
    ),
    "DC352": (
        "A comment `dcompile: ignore` names a code that cannot be ignored: text or shape are wrong.",
        "a recipe without the fault; warnings, advice and findings about memory (DC5xx) can be ignored",
    ),
    "DC301": (
        "The model is not known without a network.",
        "an id of `dcompile models`, `like: <known id>`, or `path`; for a model of your own, the file that "
        "`dcompile models add` writes beside the recipes",
    ),
    "DC302": (
        "A device, or a link between devices or nodes, is not known.",
        "a name that `dcompile hardware` lists; for a link one that the message lists, or a bandwidth (`64GB/s`)",
    ),
    "DC303": (
        "The model's folder or file cannot be used.",
        "a diffusers folder with its configurations and weights, or a single file that has a known model's weights",
    ),
    "DC305": ("The prompts cannot be used.", "a list, or a `.txt`, `.jsonl` or `.csv` file; a seed for each prompt"),
    "DC312": (
        "A facts file in `.dcompile/models` cannot be used.",
        "what `dcompile models add` writes; it is read like a recipe, so everything in it is checked",
    ),
    "DC315": (
        "Another version of a library is installed than the verdict is for; `check` alone says so, and `--strict` does "
        "not raise it: it is about this machine, not about the recipe.",
        "the version that the message names, or a `requires` for the versions that the recipe is for",
    ),
    "DC316": (
        "A weight file of the model's folder is missing, cut off or damaged. `run` ends with exit code 4 for it alone.",
        "the file copied or downloaded again; where it is on another machine, `like: <known id>` beside `path`",
    ),
    "DC360": (
        "An input picture is missing, is neither PNG nor JPEG nor WebP, is damaged, or has more pixels than Pillow "
        "reads.",
        "a picture beside the recipe; its size is read from the first bytes of the file",
    ),
    "DC363": (
        "`model.pipeline` names a class that diffusers does not have, or that cannot run on the model's components: "
        "one is missing or of another class, or the denoiser takes another number of channels.",
        "a class that the message names, or a model that is made for it",
    ),
    "DC364": (
        "`run.task` names no task, or no class of diffusers, or several, are for it with this model's components.",
        "a task or a model that the message names, or `pipeline: <class>` under `model`",
    ),
    "DC307": ("`devices.memory` is more than the device has.", "the recipe without it, or the right device"),
    "DC490": (
        "A bound of `parallel: auto` is no key or kind, is fixed and forbidden, or leaves no plan.",
        "what the message names; `fixed` holds keys of `parallel`, `forbid` kinds of plans",
    ),
    "DC491": ("A key of `parallel` stands beside `auto`.", "the key under `auto: {fixed: ...}`, or no `auto`"),
    "DC590": (
        "`parallel: auto` finds no plan that fits. The hint has the smallest change of each kind that makes one fit, "
        "each of them computed: more devices, larger devices, tiles, one picture a call, a smaller picture.",
        "one of the changes that the hint names",
    ),
}
"""What is wrong, and what to write instead, for every code that no rule has. `tests/unit/test_docs.py` compares."""


def text_of(code: str) -> str:
    """What is to be said about a code: the rule's docstring, or the fault's sentences under the same headings."""
    doc = _rule_docs().get(code)
    if doc is not None:
        return doc.strip()
    wrong, instead = EMITTED[code]
    return f"{wrong}\n\nUse instead: {instead}."


def family_of(code: str) -> tuple[str, str]:
    """What kind of fault a code is, and who finds it."""
    return next(FAMILIES[code[:length]] for length in (4, 3) if code[:length] in FAMILIES)


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


def _page(code: str) -> str:
    family, where = family_of(code)
    body = [_paragraph(part) for part in text_of(code).split("\n\n")]
    foot = [said_of(code), f"{family}: {where}. [All codes](README.md)"]
    return "\n\n".join([f"# {code} {CODES[code]}", *body, *foot]) + "\n"


def pages() -> dict[str, str]:
    """Every page by file name; `README.md` is the index."""
    found = {f"{code}.md": _page(code) for code in sorted(CODES)}
    lines = [
        "# Codes",
        "",
        "Written by `python -m dcompile.cli.rule_pages`; `dcompile explain DC401` prints a rule. The last column says",
        "what `dcompile check --fix` does: it makes an edit only where one alone is right, and takes it back where the",
        "finding stays or another error comes; comments and order stay ([ADR 0018](../adr/0018-one-right-edit.md)).",
    ]
    for start, (family, where) in FAMILIES.items():
        lines += ["", f"## {family} ({start.ljust(5, 'x')})", "", f"{where[0].upper() + where[1:]}.", ""]
        lines += ["| code | name | what | `check --fix` |", "|---|---|---|---|"]
        for code in (code for code in sorted(CODES) if family_of(code)[0] == family):
            first = _paragraph(text_of(code).split("\n\n")[0])
            edit = f"**yes**: {FIXED[code]}" if code in FIXED else f"no: {NOT_FIXED[code]}"
            lines.append(f"| [{code}]({code}.md) | `{CODES[code]}` | {first} | {edit} |")
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
