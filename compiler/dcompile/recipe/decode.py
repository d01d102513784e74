"""`Document` to `Recipe`: the types are checked by pydantic, the sentences are ours."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from dcompile.core.diagnostics import MAX_FINDINGS, Add, Diagnostic, Path, Severity, bounded, dotted, has_errors
from dcompile.core.flow import flow
from dcompile.core.safe_text import SECRET_NAME, TOKEN
from dcompile.core.units import parse_bytes
from dcompile.recipe.examples import EXAMPLES
from dcompile.recipe.faults import fault
from dcompile.recipe.model import Recipe
from dcompile.recipe.sections import field_at, fields, section_at
from dcompile.recipe.suggest import unknown_key
from dcompile.recipe.values import either, expected, hint_for, right_text, show
from dcompile.source.document import Document, get, items

_SIZES = ("memory", "host_memory", "reserve")
_LIMITS = ("greater_than_equal", "less_than_equal", "greater_than", "less_than")
_SEARCHES = 40
_ENV: Path = ("launch", "env")


def decode(document: Document) -> tuple[Recipe | None, tuple[Diagnostic, ...]]:
    """The recipe that a document holds, or what keeps it from being one.

    Args:
        document: what was read; values that it calls faulty get no second diagnostic, and no recipe.
    """
    recipe: Recipe | None = None
    found = _own_checks(document)
    if isinstance(document.value, dict) and is_newer(document.value.get("version")):
        # What a newer format may hold is not ours to judge.
        return None, tuple(diagnostic for diagnostic in found if diagnostic.path == ("version",))
    try:
        recipe = Recipe.model_validate(document.value)
        taken = {diagnostic.path for diagnostic in found}
        found += [diagnostic for diagnostic in _without_value(document) if diagnostic.path not in taken]
    except ValidationError as error:
        found = _sentences(document, error, found)
    kept: dict[tuple[Path, str, str], Diagnostic] = {}
    for diagnostic in found:
        parts = enumerate(diagnostic.path, 1)
        secret = any(TOKEN.search(str(part)) and diagnostic.path[:size] in document.keys for size, part in parts)
        if not secret and not document.is_faulty(diagnostic.path):
            kept.setdefault((diagnostic.path, diagnostic.code, diagnostic.message), diagnostic)

    def place(diagnostic: Diagnostic) -> tuple[str, int, int, str]:
        file, span = document.position(diagnostic.path, key=diagnostic.is_key)
        return file, span.line, span.column, diagnostic.code

    diagnostics = bounded(sorted(kept.values(), key=place))
    return (None if document.faulty or has_errors(diagnostics) else recipe), diagnostics


def _sentences(document: Document, error: ValidationError, known: list[Diagnostic]) -> list[Diagnostic]:
    """One diagnostic for each value that pydantic refused, and those that were known before.

    A key that is missing under its own name and must have been meant by another is one mistake.
    """
    taken = {diagnostic.path for diagnostic in known}
    at: dict[Path, list[dict[str, Any]]] = {}
    for item in error.errors(include_url=False, include_input=False, include_context=True):
        at.setdefault(_written(document.value, item), []).append(dict(item))
    found: list[Diagnostic] = []
    missing: list[Path] = []
    searches = 0
    parents = {path[:length] for path in at for length in range(len(path))}
    for path, errors in at.items():
        if len(found) > MAX_FINDINGS:
            break
        value = get(document.value, path)
        if path in taken or (path in parents and isinstance(value, (dict, list))):
            continue
        kinds = {item["type"] for item in errors}
        if kinds == {"extra_forbidden"}:
            searches += 1
            section = get(document.value, path[:-1])
            found.append(unknown_key(path, section, search=searches <= _SEARCHES))
        elif "missing" in kinds:
            missing.append(path)
        else:
            found.append(_wrong(document, path, value, errors))
    misnamed = {diagnostic.new_path for diagnostic in found if diagnostic.new_path is not None}
    found += [_missing(path) for path in missing if all(to[: len(path)] != path for to in misnamed)]
    has_source = bool(misnamed & {("model", "id"), ("model", "path")})
    return found + [item for item in known if not (has_source and (item.code, item.path) == ("DC210", ("model",)))]


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
    fix = Add(("version",), "1", is_first=True) if (*section, key) == ("version",) else None
    return fault(
        "DC202", f"{place} needs the key `{key}`", hint or f"write `{key}: ...`", section, is_key=True, fix=fix
    )


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
    if value in ([], {}) and "too_short" in kinds:
        return fault("DC206", f"`{name}` is empty", "name at least one entry, or delete the key", path)
    message = f"`{name}` is {show(value, text)}, but it must be {wanted}"
    if "literal_error" in kinds and isinstance(value, (str, int)) and not isinstance(value, bool):
        meant = _near(value, errors)
        near = f"did you mean `{meant[0]}`?" if meant else ""
        if not near and path == ("parallel", "device_map"):
            near = "`balanced` packs whole components; `{transformer: [0, 1]}` cuts one between its blocks"
        return fault("DC204", message, near, path, fix=meant[0] if len(meant) == 1 else None)
    hint = hint_for(value, text, kinds, name)
    if not hint and kinds & {"model_type", "dict_type"}:
        hint = _example(path)
    return fault("DC203", message, hint, path, fix=right_text(value, text, kinds, name))


def _example(path: Path) -> str:
    """A mapping that a field takes, as a hint."""
    section, field = section_at(path[:-1]), field_at(path)
    if section is None or field is None:
        return ""
    examples = field.examples or EXAMPLES.get(f"{section.__name__}.{path[-1]}", ())
    mapping = next((one for one in examples if isinstance(one, dict)), None)
    if mapping is None:
        return ""
    return f"write it like `{path[-1]}: {flow(mapping)}`"


def _without_value(document: Document) -> list[Diagnostic]:
    """Warnings for keys behind whose colon nothing stands: they count as not given, and were hardly meant so."""
    return [
        Diagnostic(
            "DC206",
            Severity.WARNING,
            f"`{dotted(path)}` has nothing after it, so it counts as not given",
            "write a value, or `null`, or delete the key",
            path,
            is_key=True,
        )
        for path, text in document.texts.items()
        if text == "" and path in document.keys and get(document.value, path) is None
    ]


def _near(value: Any, errors: list[dict[str, Any]]) -> list[str]:
    """The choices that are like a value, the nearest first."""
    import difflib
    import re

    choices = [c for item in errors for c in re.findall(r"'([^']+)'", str(item.get("ctx", {}).get("expected", "")))]
    short = {"bf16": "bfloat16", "fp16": "float16", "half": "float16", "fp32": "float32", "float": "float32"}
    plain = str(value).lower().removeprefix("torch.")
    if plain in choices:
        return [plain]
    return [short[plain]] if short.get(plain) in choices else difflib.get_close_matches(plain, set(choices), 2, 0.6)


def is_newer(version: object) -> bool:
    """Whether a recipe is written for a newer dcompile."""
    return type(version) is int and version > 1


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
    env = get(value, _ENV)
    for name, text in env.items() if isinstance(env, dict) else ():
        if SECRET_NAME.fullmatch(name) and text and not TOKEN.search(str(text)):
            message = f"`launch.env.{name}` is the name of a secret, which no file may hold"
            found.append(fault("DC209", message, "delete it, and set it in the shell: ranks inherit it", (*_ENV, name)))
    version = value.get("version")
    if is_newer(version):
        message = f"`version` is {version}; this dcompile reads 1"
        found.append(fault("DC204", message, "upgrade dcompile, or write `version: 1`", ("version",)))
    elif "version" in value and version is not None and (type(version) is not int or version != 1):
        shown = show(version, document.texts.get(("version",)))
        code, message = "DC204" if type(version) is int else "DC203", f"`version` is {shown}; this dcompile reads 1"
        fix = None if isinstance(version, (dict, list)) else "1"
        found.append(fault(code, message, "write `version: 1`", ("version",), fix=fix))
    for name in _SIZES:
        section: Path = ("devices", name)
        sizes = get(value, section)
        many = enumerate(sizes[:MAX_FINDINGS]) if name == "memory" and isinstance(sizes, list) else ()
        for path in (section, *((*section, index) for index, _ in many)):
            found += _size(document, path)
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
        if parse_bytes(text) == 0 and path[-1] != "reserve":
            return [fault("DC205", f"`{dotted(path)}` is `{text}`, but it must be more than 0", "", path)]
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
