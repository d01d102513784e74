"""`dcompile models`: what is known without a network, and facts files for what is not."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any


def models(options: argparse.Namespace) -> int:
    """`dcompile models`: the known models, or as JSON the known classes of denoisers and their plans."""
    if options.action == "add":
        return add(options)
    from dcompile.facts import registry
    from dcompile.facts.project import known_here

    if options.format == "json":
        print(json.dumps(class_rows(), indent=2))
        return 0
    for name in registry.known_models():
        print(f"{name:<52} {registry.load_model(name).pipeline}")
    for name in known_here(Path.cwd()):
        print(f"{name:<52} .dcompile/models")
    return 0


def class_rows() -> list[dict[str, Any]]:
    """One row for each class of denoiser and family: those of the known models, and those that have a plan.

    `degrees` are the divisors of the heads that the class has by default. `verified` says what the tests have compared
    with one process: whether anything of it, and beside it which degrees of `tensor`, modes of `context` and numbers of
    devices between which the blocks lay, with which libraries.
    """
    from dcompile.facts import registry
    from dcompile.facts.folder import known_classes
    from dcompile.layout.tokens import divisors

    classes, version = known_classes(), registry.known_version()
    planned = {name for name, entry in classes.items() if entry["tensor_plan"] or entry["context_plan"]}
    families = {(name, classes[name]["family"]) for name in planned if "family" in classes[name]}
    for model in map(registry.load_model, registry.known_models()):
        families |= {(model.components[name].class_name, model.family) for name in model.denoisers}
    rows = []
    for name, family in sorted(families):
        entry = classes[name]
        heads = entry["config_defaults"].get(entry["heads"]) if entry["tensor_plan"] else None
        compared = registry.verified().get(name, {})
        rows.append(
            {
                "class": name,
                "family": family,
                "diffusers": version,
                "tensor": {
                    "plan": "builtin" if entry["tensor_plan"] else "none",
                    "degrees": list(divisors(heads)) if heads else [],
                    "verified": "tensor" in compared,
                },
                "context": {
                    "plan": "builtin" if entry["context_plan"] else "none",
                    "splits_text": entry["context_splits_text"],
                    "verified": "context" in compared,
                },
                "verified": {**compared, "with": registry.known_versions()} if compared else {},
            }
        )
    return rows


def add(options: argparse.Namespace) -> int:
    """`dcompile models add PATH_OR_ID`: write a facts file that can be committed beside the recipes."""
    from dcompile.core.files import write_whole
    from dcompile.facts.errors import FactsError
    from dcompile.facts.facts_file import facts_text
    from dcompile.facts.folder import facts_of_folder
    from dcompile.facts.hub_cache import cache_folder, snapshot_of
    from dcompile.facts.project import FOLDER, ID, file_name
    from dcompile.facts.resolve import facts_of_path

    given = Path(options.model)
    model_id = options.id or (given.resolve().name if given.exists() else options.model)
    if given.is_file() and options.id is None:
        model_id = given.stem
    if not ID.fullmatch(model_id):
        print(f"dcompile: `{model_id}` is no id: give one with --id, such as our-team/our-model", file=sys.stderr)
        return 2
    try:
        if given.exists():
            facts = facts_of_path(given, options.variant)
        else:
            snapshot = snapshot_of(options.model, options.revision)
            if snapshot is None:
                where = f"no file or folder here, and not in the hub's cache ({cache_folder()})"
                print(f"dcompile: `{options.model}` is {where}", file=sys.stderr)
                print(f"  download it first: hf download {options.model}", file=sys.stderr)
                return 2
            facts = facts_of_folder(snapshot, options.variant)
    except FactsError as error:
        print(f"dcompile: {error.message}\n  {error.hint}", file=sys.stderr)
        return 2
    parts = facts.components.values()
    guessed = sorted({part.class_name for part in parts if part.is_guessed and part.library == "diffusers"})
    if guessed:
        print(f"dcompile: {', '.join(guessed)}: not in the diffusers that is installed here", file=sys.stderr)
        print("  facts of its plans have to come from a machine whose diffusers has it", file=sys.stderr)
        return 2
    path = Path(options.out) if options.out else FOLDER / file_name(model_id)
    if path.name != file_name(model_id):
        print(f"dcompile: the file of `{model_id}` has to be named {file_name(model_id)}", file=sys.stderr)
        return 2
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, facts_text(replace(facts, id=model_id)))
    print(f"{path}: commit it beside the recipes; they name it as `model.id` or `model.like: {model_id}`")
    return 0
