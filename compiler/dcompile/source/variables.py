"""`${NAME}` and `${NAME:-default}` in paths and ids."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import replace

from dcompile.core.diagnostics import MAX_FINDINGS, Diagnostic, Path, bounded, dotted
from dcompile.core.safe_text import SECRET_NAME
from dcompile.source.document import Document, get, items
from dcompile.source.faults import fault

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^{}]*))?\}")
_PLACES = (
    "model.path, model.id, components.*.path, components.*.id, model.adapters[].path, output.dir, run.prompts, "
    "run.images[]"
)


def allowed(path: Path) -> bool:
    """Whether variables are filled in at a path."""
    if path in (("model", "path"), ("model", "id"), ("output", "dir"), ("run", "prompts")):
        return True
    if len(path) == 3 and path[:2] == ("run", "images"):
        return True
    if len(path) == 3 and path[0] == "components":
        return path[2] in ("id", "path")
    return len(path) == 4 and path[:2] == ("model", "adapters") and path[3] == "path"


def _is_free(path: Path) -> bool:
    """Texts that are not ours: prompts, arguments, the environment of a launcher."""
    return bool(path) and path[0] in ("run", "launch", "targets", "name")


def fill(document: Document, environ: Mapping[str, str]) -> tuple[Document, list[Diagnostic]]:
    """The document with its variables filled in."""
    faults: list[Diagnostic] = []
    filled: dict[Path, str] = {}
    for path, text in items(document.value):
        if not isinstance(text, str) or "${" not in text or (not allowed(path) and _is_free(path)):
            continue
        wrong = _check(path, text, environ)
        if wrong is None:
            filled[path] = _REFERENCE.sub(lambda match: environ.get(match[1]) or match[2] or "", text)
            continue
        if len(faults) > MAX_FINDINGS:
            break
        file, span = document.position(path)
        faults.append(fault(*wrong, span, file, path))
    if not filled and not faults:
        return document, []
    value = copy.deepcopy(document.value)
    for path, text in filled.items():
        get(value, path[:-1])[path[-1]] = text
    return replace(document, value=value, faulty=document.faulty | {fault.path for fault in faults}), list(
        bounded(faults)
    )


def _check(path: Path, text: str, environ: Mapping[str, str]) -> tuple[str, str, str] | None:
    """Code, message and hint of what is wrong with the variables of one text."""
    if not allowed(path):
        return "DC127", f"`{dotted(path)}` takes no variables", f"variables may stand in {_PLACES}"
    if "${" in _REFERENCE.sub("", text):
        return "DC128", "what follows a `$` is not a variable", "write ${NAME} or ${NAME:-default}"
    for match in _REFERENCE.finditer(text):
        name = match[1]
        if SECRET_NAME.fullmatch(name):
            hint = "the only secret is HF_TOKEN, which is read from the environment"
            return "DC127", f"`{name}` is the name of a secret, which a path or id may not hold", hint
        if match[2] is None and not environ.get(name):
            return "DC126", f"the variable `{name}` is not set", f"set it, or give a default: ${{{name}:-...}}"
    return None
