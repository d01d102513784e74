"""A name of the files or of the bundle is broken, leads out of its folder, or is that of two pictures.

What it checks: `output.name` with every row of the job; `name`, after which the bundle's folder in `build/` is called.

Why it matters: two pictures of one name overwrite each other, and a path out of the folder overwrites something else.

Example: `output: {name: "{prompt_slug}"}` with one prompt twice

Use instead: `output: {name: "{index:05d}-{prompt_slug}"}`

Source: our own (row DP-08).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.core.naming import FIELDS_TEXT, file_name, is_plain_name
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    if subject.recipe.name is not None and not is_plain_name(subject.recipe.name):
        message = f"`{subject.recipe.name}` is no name of a folder, and the bundle lies in `build/<name>/`"
        yield error("DC311", message, "use letters, digits, `-`, `_`, `.` and spaces", ("name",))
    template, path = subject.recipe.output.name, ("output", "name")
    seen: dict[str, int] = {}
    for row in subject.facts.rows:
        try:
            name = file_name(template, "png", index=row.index, seed=row.seed, prompt=row.prompt, row_id=row.id)
        except ValueError as fault:
            yield error("DC311", str(fault), f"use {FIELDS_TEXT}", path)
            return
        if name in seen:
            message = f"`{template}` gives pictures {seen[name]} and {row.index} the same file"
            yield error("DC311", message, "add {index:05d} to the name", path)
            return
        seen[name] = row.index


RULE = Rule("DC311", check)
