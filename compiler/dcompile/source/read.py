"""Reads a recipe's file, what it extends, and the files that its sections name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any

from dcompile.core.diagnostics import Diagnostic, Path
from dcompile.source.document import OVERRIDE, Document, paths, say_chain
from dcompile.source.faults import fault
from dcompile.source.files import load, read_text
from dcompile.source.overrides import apply_overrides
from dcompile.source.parse import MAX_VALUES, parse
from dcompile.source.variables import fill

MAX_CHAIN = 16

Result = tuple[Document | None, tuple[Diagnostic, ...]]


def read(path: FilePath, *, roots: Sequence[FilePath] = (), overrides: Sequence[str] = ()) -> Result:
    """The document of a recipe, with its bases merged, its devices file read and its variables filled in.

    Args:
        path: the recipe.
        roots: folders in which a base or devices file is looked for after the recipe's own folder.
        overrides: `run.seed=7` and the like, applied after the bases and before variables are filled in.

    Raises:
        OSError: where the recipe itself cannot be read.
    """
    return read_bytes(read_text(path), str(path), roots=roots, overrides=overrides)


def read_bytes(
    text: bytes | str, file: str, *, roots: Sequence[FilePath] = (), overrides: Sequence[str] = ()
) -> Result:
    """`read` of a text that is already here (standard input, an editor's buffer)."""
    document, faults = parse(text, file)
    if document is None:
        return None, faults
    found = list(faults)
    merged = _extend(document, roots, (file,), found)
    if merged is None:
        return None, tuple(found)
    for override in overrides:
        if override.startswith("devices."):  # a value of the machine, whose file has to be read first
            merged = load_devices(merged, roots, found)
        merged, faults = apply_overrides(merged, [override])
        found += faults
    return _finish(merged, roots, found)


def _finish(document: Document, roots: Sequence[FilePath], found: list[Diagnostic]) -> Result:
    complete, faults = fill(load_devices(document, roots, found), os.environ)
    return complete, (*found, *faults)


def _extend(
    document: Document,
    roots: Sequence[FilePath],
    chain: tuple[str, ...],
    found: list[Diagnostic],
    room: int = MAX_VALUES,
) -> Document | None:
    """The document on top of its base; None where the base cannot be had.

    Args:
        chain: the files that lead here, this one included.
        room: how many values this file and its bases may hold.
    """
    path: Path = ("extends",)
    if not isinstance(document.value, dict) or "extends" not in document.value or document.is_faulty(path):
        return document
    name = document.value["extends"]
    file, span = document.position(path)
    rest = {key: value for key, value in document.value.items() if key != "extends"}
    own = replace(document.without(path), value=rest)

    def refuse(code: str, message: str, hint: str = "") -> None:
        found.extend(_named([fault(code, message, hint, span, file, path)], chain))

    if not isinstance(name, str):
        refuse("DC122", "`extends` takes the name of one file", "write `extends: base.yaml`")
        return None
    base, faults = load(name, "the base of `extends`", "DC121", (file, span), path, roots, document.file)
    found += _named((fault for fault in faults if fault.file == file), chain)
    if base is None:
        found += _named((fault for fault in faults if fault.file != file), (*chain, name))
        return None
    chain = (*chain, base.file)
    found += _named((fault for fault in faults if fault.file != file), chain)
    real = [os.path.realpath(link) for link in chain]
    if real[-1] in real[:-1]:
        names = " -> ".join(os.path.basename(link) for link in real[real.index(real[-1]) :])
        found.append(fault("DC123", f"`extends` goes round in a circle: {names}", "", span, file, path))
        return None
    if len(chain) > MAX_CHAIN:
        refuse("DC124", f"`extends` goes deeper than {MAX_CHAIN} files")
        return None
    room -= len(own.values)
    if len(base.values) > room:
        hint = "put long lists of prompts into a file and name it in `run.prompts`"
        refuse("DC102", f"the recipe and its bases hold more than {MAX_VALUES} values", hint)
        return None
    whole = _extend(replace(base, chains={base.file: chain}), roots, chain, found, room)
    return None if whole is None else merge(whole, own)


def _named(faults: Iterable[Diagnostic], chain: tuple[str, ...]) -> list[Diagnostic]:
    """Faults of a file that the recipe leads to, saying how; those of the recipe itself as they are."""
    return [replace(fault, message=f"{fault.message}{say_chain(chain)}") for fault in faults]


def merge(base: Document, over: Document) -> Document:
    """`over` on top of `base`: mappings merge, lists and scalars replace, null unsets."""
    merged = Document(
        None,
        file=over.file,
        chains={**base.chains, **over.chains},
        suppressions=(*base.suppressions, *over.suppressions),
    )
    faulty: set[Path] = set()

    def take(source: Document, path: Path, inside: Any = None) -> None:
        """Keeps the positions of one value, and of what lies inside it."""
        for at in paths(inside, path):
            if at in source.keys:
                merged.keys[at] = source.keys[at]
            if at in source.values:
                merged.values[at] = source.values[at]
                merged.origins[at] = source.origin(at)
            if at in source.texts:
                merged.texts[at] = source.texts[at]
            if at in source.faulty:
                faulty.add(at)

    def join(low: Any, high: Any, path: Path) -> Any:
        result: dict[str, Any] = {}
        for key in [*low, *(key for key in high if key not in low)]:
            at = (*path, key)
            if key not in high:
                take(base, at, low[key])
                result[key] = low[key]
            elif isinstance(high[key], dict) and isinstance(low.get(key), dict):
                take(over, at)
                result[key] = join(low[key], high[key], at)
            elif high[key] is not None or key not in low or over.is_faulty(at):
                take(over, at, high[key])
                result[key] = high[key]
        return result

    take(over, ())
    value = join(base.value, over.value, ())
    return replace(merged, value=value, faulty=frozenset(faulty))


def load_devices(document: Document, roots: Sequence[FilePath], found: list[Diagnostic]) -> Document:
    """The document with the devices file in place of its name; faults are added to `found`."""
    path: Path = ("devices",)
    name = document.value.get("devices") if isinstance(document.value, dict) else None
    if not isinstance(name, str) or document.is_faulty(path):
        return document
    file, span = document.position(path)
    if not name.endswith((".yaml", ".yml")):
        message = f"`devices` is `{name}`, but it must be a mapping or the name of a .yaml file"
        found.append(fault("DC125", message, f"write `devices: {{gpu: {name}}}`", span, file, path))
        return replace(document, faulty=document.faulty | {path})
    beside = os.path.join(os.curdir, "x") if file == OVERRIDE else file
    section, faults = load(name, "the devices file", "DC125", (file, span), path, roots, beside)
    chain = (*document.chains.get(file, (document.file,)), section.file if section is not None else name)
    found += [faulty if faulty.file == file else _named([faulty], chain)[0] for faulty in faults]
    if section is None:
        return replace(document, faulty=document.faulty | {path})
    inner = section.under(path)
    outer = document.without(path)
    return replace(
        outer,
        value={**document.value, "devices": section.value},
        keys={**outer.keys, **inner.keys},
        values={**outer.values, **inner.values},
        texts={**outer.texts, **inner.texts},
        origins={**outer.origins, **dict.fromkeys(inner.values, section.file)},
        faulty=outer.faulty | inner.faulty,
        chains={**document.chains, section.file: chain},
        suppressions=(*document.suppressions, *section.suppressions),
    )
