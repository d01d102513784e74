"""The schema that editors read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from dcompile.recipe.decode import decode
from dcompile.recipe.examples import EXAMPLES
from dcompile.recipe.schema import recipe_schema, schema_text
from dcompile.source.parse import parse

FILE = Path(__file__).parents[2] / "schemas" / "recipe.schema.json"


def nodes(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
        for inner in node.values():
            yield from nodes(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from nodes(inner)


def test_the_file_is_current() -> None:
    assert FILE.read_text(encoding="utf-8") == schema_text(), (
        "stale: run `dcompile schema > schemas/recipe.schema.json`"
    )


@pytest.mark.parametrize("recipe", sorted((FILE.parents[1] / "recipes").glob("*.yaml")), ids=lambda file: file.name)
def test_every_recipe_of_the_repository_names_it(recipe: Path) -> None:
    """The YAML language server takes the path from the recipe's folder."""
    first = recipe.read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith("# yaml-language-server: $schema=")
    assert (recipe.parent / first.partition("$schema=")[2]).resolve() == FILE


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(schema_text()))


def test_every_key_is_described() -> None:
    objects = [node for node in nodes(recipe_schema()) if isinstance(node.get("properties"), dict)]
    missing = [name for node in objects for name, entry in node["properties"].items() if not entry.get("description")]
    assert missing == []


def entries() -> dict[str, dict[str, Any]]:
    """Every key of every section: `Run.steps`."""
    schema = recipe_schema()
    sections = {"Recipe": schema, **schema["$defs"]}
    return {
        f"{section}.{name}": entry
        for section, node in sections.items()
        for name, entry in node.get("properties", {}).items()
    }


def required() -> set[str]:
    schema = recipe_schema()
    sections = {"Recipe": schema["else"], **schema["$defs"]}
    return {f"{section}.{name}" for section, node in sections.items() for name in node.get("required", ())}


def test_an_editor_can_complete_every_key() -> None:
    """A list of values (an enum, true and false) or an example; and the default, where the key may be left out."""
    found = entries()
    bare = [
        name
        for name, entry in found.items()
        if not entry.get("examples")
        and not any(word in json.dumps(entry) for word in ('"enum"', '"const"', '"boolean"'))
    ]
    assert bare == []
    assert [name for name, entry in found.items() if "default" not in entry] == sorted(
        required() | {"Recipe.extends"}, key=list(found).index
    )
    assert set(EXAMPLES) <= set(found)


@pytest.mark.parametrize("name", entries())
def test_examples_and_defaults_are_valid(name: str) -> None:
    schema = recipe_schema()
    entry = entries()[name]
    validator = jsonschema.Draft202012Validator({**entry, "$defs": schema["$defs"]})
    for example in entry.get("examples", ()):
        validator.validate(example)
    if "default" in entry and name not in ("Recipe.model",):
        validator.validate(entry["default"])


def test_unknown_keys_are_refused() -> None:
    sections = {"recipe": recipe_schema(), **recipe_schema()["$defs"]}
    assert [name for name, node in sections.items() if node.get("additionalProperties") is not False] == ["Scheduler"]


HEAD = "version: 1\nmodel: {id: a/b}\n"


@pytest.mark.parametrize(
    ("text", "good"),
    [
        (HEAD, True),
        ("model: {id: a/b}\n", False),
        (HEAD + "parallel: auto\n", True),
        (HEAD + "parallel: {tensor: 4}\n", True),
        (HEAD + "parallel: {tensor: 0}\n", False),
        (HEAD + "parallel: {tensor: {degree: 4, plan: ours}}\n", True),
        (HEAD + "parallel: {auto: {fixed: {data: 2}, forbid: [offload]}}\n", True),
        (HEAD + "parallel: {device_map: {transformer: [0, 1], vae: 2}}\n", True),
        (HEAD + "parallel: balanced\n", False),
        (HEAD + "devices: {memory: 24GiB}\n", True),
        (HEAD + "devices: {memory: 24}\n", False),
        (HEAD + "devices: {memory: 24G}\n", False),
        (HEAD + "run: {prompts: p.txt, guidance: 3}\n", True),
        (HEAD + "run: {prompts: [a], steps: 4.5}\n", False),
        (HEAD + "run: {num_inference_steps: 4}\n", False),
        (HEAD + "components: {safety_checker: null}\n", True),
        (HEAD + "components: {vae: {tiling: no}}\n", False),
    ],
)
def test_schema_and_check_agree(text: str, good: bool) -> None:
    document, _ = parse(text, "r.yaml")
    assert document is not None
    recipe, found = decode(document)
    assert (recipe is not None) is good, found
    assert jsonschema.Draft202012Validator(recipe_schema()).is_valid(document.value) is good


def test_a_recipe_that_extends_may_be_partial() -> None:
    validator = jsonschema.Draft202012Validator(recipe_schema())
    assert validator.is_valid({"extends": "base.yaml", "run": {"steps": 3}})
    assert not validator.is_valid({"run": {"steps": 3}})
