"""`Document` to `Recipe`: the types are checked by pydantic, the sentences are ours."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from dcompile.core.diagnostics import Diagnostic, Path, dotted, has_errors
from dcompile.core.units import parse_bytes
from dcompile.recipe.faults import fault
from dcompile.recipe.model import Recipe
from dcompile.recipe.sections import fields, section_at
from dcompile.recipe.suggest import unknown_key
from dcompile.recipe.values import either, expected, hint_for, show
from dcompile.source.document import Document, get, items
from dcompile.source.faults import TOKEN

_SIZES = ("memory", "host_memory", "reserve")
_LIMITS = ("greater_than_equal", "less_than_equal", "greater_than", "less_than")
_SEARCHES = 40
_MOST = 100


def decode(document: Document) -> tuple[Recipe | None, tuple[Diagnostic, ...]]:
    """The recipe that a document holds, or what keeps it from being one.

    Args:
        document: what was read; values that it calls faulty get no second diagnostic, and no recipe.
    """
    recipe: Recipe | None = None
    found = _own_checks(document)
    try:
        recipe = Recipe.model_validate(document.value)
    except ValidationError as error:
        found = _sentences(document, error, found) + found
    kept: dict[tuple[Path, str, str], Diagnostic] = {}
    for diagnostic in found:
        parts = enumerate(diagnostic.path, 1)
        secret = any(TOKEN.search(str(part)) and diagnostic.path[:size] in document.keys for size, part in parts)
        if not secret and not document.is_faulty(diagnostic.path):
            kept.setdefault((diagnostic.path, diagnostic.code, diagnostic.message), diagnostic)

    def place(diagnostic: Diagnostic) -> tuple[str, int, int, str]:
        file, span = document.position(diagnostic.path, key=diagnostic.is_key)
        return file, span.line, span.column, diagnostic.code

    diagnostics = tuple(sorted(kept.values(), key=place))
    return (None if document.faulty or has_errors(diagnostics) else recipe), diagnostics


def _sentences(document: Document, error: ValidationError, known: list[Diagnostic]) -> list[Diagnostic]:
    """One diagnostic for each value that pydantic refused."""
    taken = {diagnostic.path for diagnostic in known}
    at: dict[Path, list[dict[str, Any]]] = {}
    for item in error.errors(include_url=False, include_input=False, include_context=True):
        at.setdefault(_written(document.value, item), []).append(dict(item))
    found: list[Diagnostic] = []
    searches = 0
    parents = {path[:length] for path in at for length in range(len(path))}
    for path, errors in at.items():
        if len(found) >= _MOST:
            break
        value = get(document.value, path)
        if path in taken or (path in parents and isinstance(value, (dict, list))):
            continue
        kinds = {item["type"] for item in errors}
        if kinds == {"extra_forbidden"}:
            searches += 1
            found.append(unknown_key(path, search=searches <= _SEARCHES))
        elif "missing" in kinds:
            found.append(_missing(path))
        else:
            found.append(_wrong(document, path, value, errors))
    return found


def _written(value: Any, item: Any) -> Path:
    """The path of an error in the recipe, without the names of pydantic's branches."""
    path: Path = ()
    last = len(item["loc"]) - 1
    for index, part in enumerate(item["loc"]):
        inside = isinstance(value, dict) and part in value
        inside = inside or (isinstance(value, list) and isinstance(part, int) and part < len(value))
        if inside:
            value, path = value[part], (*path, part)
        elif index == last and item["type"] == "missing":
            path = (*path, part)
    return path


def _missing(path: Path) -> Diagnostic:
    section, key = path[:-1], path[-1]
    place = f"`{dotted(section)}`" if section else "the recipe"
    hint = {"version": "write `version: 1`", "model": "write `model: {id: <hub id>}`"}.get(dotted(path), "")
    return fault("DC202", f"{place} needs the key `{key}`", hint or f"write `{key}: ...`", section, is_key=True)


def _wrong(document: Document, path: Path, value: Any, errors: list[dict[str, Any]]) -> Diagnostic:
    name = dotted(path) or "the recipe"
    text = document.texts.get(path)
    kinds = {item["type"] for item in errors}
    limits = [item for item in errors if item["type"] in _LIMITS]
    if limits and not isinstance(value, bool):
        words = " and ".join(dict.fromkeys(expected(item["type"], item.get("ctx", {})) for item in limits))
        return fault("DC205", f"`{name}` is {show(value, text)}, but it must be {words}", "", path)
    wanted = either(expected(item["type"], item.get("ctx", {})) for item in errors)
    if value is None:
        section = section_at(path)
        hint = f"write {wanted}, or delete the key"
        if section is not None:
            hint = (
                f"give it a key ({', '.join(fields(section)[:6])}, ...), or delete it"
                if path != ("model",)
                else "write `model: {id: <hub id>}`"
            )
        if path == ("version",):
            hint = "write `version: 1`"
        what = "has nothing under it" if not text else f"is `{text}`"
        return fault("DC206", f"`{name}` {what}; it must be {wanted}", hint, path, is_key=True)
    message = f"`{name}` is {show(value, text)}, but it must be {wanted}"
    if "literal_error" in kinds and isinstance(value, (str, int)) and not isinstance(value, bool):
        return fault("DC204", message, _near(value, errors), path)
    return fault("DC203", message, hint_for(value, text, kinds, name), path)


def _near(value: Any, errors: list[dict[str, Any]]) -> str:
    import difflib
    import re

    choices = [c for item in errors for c in re.findall(r"'([^']+)'", str(item.get("ctx", {}).get("expected", "")))]
    short = {"bf16": "bfloat16", "fp16": "float16", "half": "float16", "fp32": "float32", "float": "float32"}
    plain = str(value).lower().removeprefix("torch.")
    meant = [short[plain]] if short.get(plain) in choices else difflib.get_close_matches(plain, choices, 1, 0.6)
    return f"did you mean `{meant[0]}`?" if meant else ""


def _own_checks(document: Document) -> list[Diagnostic]:
    """What types cannot say: tokens, sizes, one of two keys, the format's number."""
    value = document.value
    found = [
        fault("DC209", f"`{dotted(path)}` holds a token", "delete it, revoke it, and set HF_TOKEN instead", path)
        for path, text in items(value)
        if isinstance(text, str) and TOKEN.search(text)
    ]
    hint = "delete it, revoke it, and set HF_TOKEN instead"
    for path in document.keys:
        if TOKEN.search(str(path[-1])):
            place = f"`{dotted(path[:-1])}`" if path[:-1] else "the recipe"
            found.append(fault("DC209", f"a key of {place} holds a token", hint, path[:-1], is_key=True))
    if not isinstance(value, dict):
        return found
    version = value.get("version")
    if "version" in value and version is not None and (type(version) is not int or version != 1):
        shown = show(version, document.texts.get(("version",)))
        code = "DC204" if type(version) is int else "DC203"
        found.append(fault(code, f"`version` is {shown}; this dcompile reads 1", "write `version: 1`", ("version",)))
    for name in _SIZES:
        found += _size(document, ("devices", name))
    model = value.get("model")
    if isinstance(model, dict):
        found += _model(model)
    parallel = value.get("parallel")
    if isinstance(parallel, dict) and "auto" in parallel and parallel["auto"] is None:
        hint = "write `parallel: auto`, or give it `fixed` or `forbid`"
        message = "`parallel.auto` has nothing under it"
        found.append(fault("DC206", message, hint, ("parallel", "auto"), is_key=True))
    return found


def _size(document: Document, path: Path) -> list[Diagnostic]:
    value = get(document.value, path)
    if value is None or isinstance(value, (bool, dict, list)):
        return []
    text = document.texts.get(path, str(value))
    if TOKEN.search(text):
        return []
    try:
        parse_bytes(text)
    except ValueError as error:
        return [fault("DC208", f"`{dotted(path)}`: {error}", "", path)]
    except OverflowError:
        return [fault("DC205", f"`{dotted(path)}` is larger than any memory", "", path)]
    return []


def _model(model: dict[str, Any]) -> list[Diagnostic]:
    has = [name for name in ("id", "path") if model.get(name) is not None]
    if len(has) == 2:
        message = "`model` has both `id` and `path`"
        hint = "keep one; `like: <known id>` says whose facts a folder has"
        return [fault("DC210", message, hint, ("model", "path"), is_key=True)]
    if not has:
        return [fault("DC210", "`model` has neither `id` nor `path`", "write `id: <hub id>`", ("model",), is_key=True)]
    return []
