"""The recipe's JSON Schema, for editors and other validators."""

from __future__ import annotations

import json
from typing import Any

from dcompile.recipe.examples import EXAMPLES
from dcompile.recipe.model import Recipe

_EXTENDS = {
    "type": "string",
    "description": "A recipe that this one changes: mappings merge, lists and values replace, null unsets.",
    "examples": ["base.yaml"],
}


def recipe_schema() -> dict[str, Any]:
    """The schema of a recipe's file, made from the types of `recipe.model`.

    It says what one file may hold, so a recipe with `extends` may leave out what its base has.
    """
    schema = _clean(Recipe.model_json_schema(by_alias=True))
    required = schema.pop("required")
    properties = {"version": schema["properties"].pop("version"), "extends": _EXTENDS, **schema.pop("properties")}
    definitions = schema.pop("$defs")
    sections = {"Recipe": properties} | {name: made.get("properties", {}) for name, made in definitions.items()}
    for section, entries in sections.items():
        for name, entry in entries.items():
            if "$ref" in entry:
                entry.setdefault("description", definitions[entry["$ref"].rpartition("/")[2]]["description"])
            if (examples := EXAMPLES.get(f"{section}.{name}")) is not None:
                entry["examples"] = list(examples)
            if section == "Recipe" and name not in required and name != "extends":
                entry.setdefault("default", {})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "dcompile recipe",
        "description": schema["description"],
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "if": {"required": ["extends"]},
        "then": {},
        "else": {"required": required},
        "$defs": definitions,
    }


def schema_text() -> str:
    """The schema as it lies in `schemas/recipe.schema.json`."""
    return json.dumps(recipe_schema(), indent=2, ensure_ascii=False) + "\n"


def _clean(node: Any, *, names: bool = False) -> Any:
    """Without the titles that pydantic makes up; `names` says that the keys are a user's, not the schema's."""
    if isinstance(node, list):
        return [_clean(item) for item in node]
    if not isinstance(node, dict):
        return node
    kept = node if names else {key: value for key, value in node.items() if key != "title"}
    verbatim = ("default", "examples", "enum", "const")
    return {
        key: value if key in verbatim and not names else _clean(value, names=key in ("properties", "$defs"))
        for key, value in kept.items()
    }
