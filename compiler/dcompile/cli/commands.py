"""One function for each command: it calls the driver and prints. Results go to stdout, everything else to stderr."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from pathlib import Path

from dcompile.cli import render
from dcompile.core.diagnostics import Severity, dotted
from dcompile.core.units import format_bytes
from dcompile.driver import Compiled, compile_recipe

EXTRA = {
    "torch": "run",
    "diffusers": "run",
    "transformers": "run",
    "accelerate": "run",
    "safetensors": "run",
    "PIL": "run",
    "peft": "lora",
    "imageio_ffmpeg": "video",
}


def _compile(options: argparse.Namespace, file: str) -> Compiled:
    return compile_recipe(Path(file), options.set, [Path(root) for root in options.root])


def _is_foreign(compiled: Compiled) -> bool:
    """Whether a file is a mapping that is no recipe: without both `version` and `model`, and no `extends`."""
    value = compiled.document.value if compiled.document is not None else None
    return isinstance(value, dict) and "extends" not in value and not {"version", "model"} <= value.keys()


def check(options: argparse.Namespace) -> int:
    """`dcompile check FILE...`: diagnostics only."""
    findings: list[render.Finding] = []
    unreadable = False
    for file in options.recipes:
        try:
            compiled = _compile(options, file)
        except OSError as error:
            print(f"dcompile: {file}: {error.strerror or error}", file=sys.stderr)
            unreadable = True
            continue
        if options.skip_foreign and _is_foreign(compiled):
            print(f"dcompile: {file}: skipped, it is no recipe", file=sys.stderr)
            continue
        findings += render.locate(compiled.diagnostics, compiled.document, file, options.strict)
    wrong = any(finding.diagnostic.severity is Severity.ERROR for finding in findings)
    if options.format == "json":
        print(render.as_json(findings))
    elif findings:
        print(render.as_text(findings, render.wants_colour(sys.stdout)))
    if options.format == "text" and not wrong and not unreadable:
        count = len(options.recipes)
        print(f"dcompile: {count} file{'s' if count != 1 else ''} checked, no errors", file=sys.stderr)
    return 2 if unreadable else int(wrong)


def _report(compiled: Compiled) -> None:
    """Print a recipe's diagnostics to stderr; they are not the result of the command."""
    findings = render.locate(compiled.diagnostics, compiled.document, str(compiled.file), strict=False)
    if findings:
        print(render.as_text(findings, render.wants_colour(sys.stderr)), file=sys.stderr)


def _write(compiled: Compiled) -> Path | None:
    from dcompile.emit.bundle import write_bundle

    _report(compiled)
    if not compiled.is_valid or compiled.plan_json is None:
        return None
    return write_bundle(compiled.plan_json, Path("build") / compiled.plan_json["name"])


def compile_(options: argparse.Namespace) -> int:
    """`dcompile RECIPE`: write the bundle and print what lies on each device."""
    from dcompile.emit.plan_json import summary_lines

    compiled = _compile(options, options.recipe)
    path = _write(compiled)
    if path is None or compiled.plan_json is None:
        return 1
    print("\n".join(summary_lines(compiled.plan_json)))
    print(f"  written: {path.parent}/")
    return 0


def missing_extras(plan: dict[str, object], packages: dict[str, str] | None = None) -> list[str]:
    """The extras that a plan needs and this environment lacks, in order."""
    program = plan["program"]
    if not isinstance(program, dict):
        raise TypeError("a plan has a program")
    needed = {name for name, extra in EXTRA.items() if extra == "run"}
    if program["pipeline"]["adapters"]:
        needed.add("peft")
    if program["output"]["format"] == "mp4":
        needed.add("imageio_ffmpeg")
    wanted = packages or EXTRA
    return sorted({wanted[name] for name in needed if importlib.util.find_spec(name) is None})


def differing_versions(requires: dict[str, str]) -> str:
    """What is installed against what the plan is for, as a sentence; empty where they agree."""
    from importlib.metadata import version

    from dcompile.core.versions import same_minor, satisfies

    for name, wanted in requires.items():
        here = version(name)
        if not (satisfies(here, wanted) if wanted[:1] in "<>=!" else same_minor(here, wanted)):
            return f"the plan is for {name} {wanted}, and {here} is installed"
    return ""


def run(options: argparse.Namespace) -> int:
    """`dcompile run RECIPE`: compile, then start the ranks."""
    compiled = _compile(options, options.recipe)
    path = _write(compiled)
    if path is None or compiled.plan_json is None or compiled.recipe is None:
        return 1
    missing = missing_extras(compiled.plan_json)
    if missing:
        extras = ",".join(missing)
        print(f"dcompile: running needs more packages: pip install 'dcompile[{extras}]'", file=sys.stderr)
        return 2
    if compiled.recipe.model.trust_remote_code and not options.trust_remote_code:
        message = "the recipe asks for code from the model's repository: confirm it with --trust-remote-code"
        print(f"dcompile: {message}", file=sys.stderr)
        return 2
    differing = differing_versions(compiled.plan_json["requires"])
    if differing:
        print(f"dcompile: {differing}", file=sys.stderr)
        return 2
    from dcompile.runtime.launch import run_plan

    root = Path(options.recipe).resolve().parent
    return run_plan(path, root, overwrite=options.overwrite, progress=options.progress, traceback=options.traceback)


def config(options: argparse.Namespace) -> int:
    """`dcompile config RECIPE`: the recipe in full; `--origins` says where each value comes from."""
    import yaml

    from dcompile.recipe.canonical import canonical
    from dcompile.source.document import items

    compiled = _compile(options, options.recipe)
    if compiled.recipe is None or compiled.document is None:
        _report(compiled)
        return 1
    full = canonical(compiled.recipe)
    if isinstance(full["parallel"], dict) and full["parallel"]["auto"] is None:
        del full["parallel"]["auto"]  # written with nothing under it, the key asks for the planner
    if not options.origins:
        print(yaml.safe_dump(full, sort_keys=False, allow_unicode=True), end="")
        return 0
    for path, value in items(full):
        if isinstance(value, (dict, list)) and value:
            continue
        where = "default"
        if path in compiled.document.values:
            file, span = compiled.document.position(path)
            where = file if file == "--set" else f"{file}:{span.line}"
        print(f"{dotted(path)}: {json.dumps(value, ensure_ascii=False)}  # {where}")
    return 0


def schema(options: argparse.Namespace) -> int:
    """`dcompile schema [recipe|plan]`."""
    from dcompile.emit.schema import plan_schema
    from dcompile.recipe.schema import schema_text

    print(schema_text() if options.which == "recipe" else json.dumps(plan_schema(), indent=2) + "\n", end="")
    return 0


def models(options: argparse.Namespace) -> int:
    """`dcompile models`: what is known without a network."""
    from dcompile.facts import registry
    from dcompile.layout.tokens import divisors

    known = [(name, registry.load_model(name)) for name in registry.known_models()]
    if options.format == "text":
        for name, facts in known:
            print(f"{name:<48} {facts.pipeline}")
        return 0
    rows = []
    for name, facts in known:
        for denoiser in facts.denoisers:
            part = facts.components[denoiser]
            degrees = list(divisors(part.heads or 1)) if part.tensor_plan else []
            tensor = {"plan": "builtin" if part.tensor_plan else "none", "degrees": degrees, "verified": False}
            context = {"plan": "builtin" if part.context_plan else "none", "splits_text": part.context_splits_text}
            row = {"id": name, "class": part.class_name, "family": facts.family, "diffusers": facts.diffusers}
            rows.append({**row, "tensor": tensor, "context": context})
    print(json.dumps(rows, indent=2))
    return 0


def hardware(options: argparse.Namespace) -> int:
    """`dcompile hardware`: the known devices."""
    from dcompile.facts import registry

    known = [registry.load_hardware(name) for name in registry.known_hardware()]
    if options.format == "json":
        print(json.dumps([vars(device) for device in known], indent=2))
        return 0
    for device in known:
        print(f"{device.name:<18} {device.kind:<5} {format_bytes(device.memory_bytes):>11}  {device.link}")
    return 0


def init(options: argparse.Namespace) -> int:
    """`dcompile init --model ID`: write a recipe that runs on this machine, and say what was chosen."""
    from dcompile.cli.init import recipe_text

    path = Path(options.output)
    if path.exists():
        print(f"dcompile: {path} exists; name another file with --output", file=sys.stderr)
        return 2
    text, chosen, problem = recipe_text(options.model)
    if problem:
        print(f"dcompile: {problem}", file=sys.stderr)
        return 1
    from dcompile.emit.bundle import write_whole

    write_whole(path, text)
    print(f"{path}: {chosen}")
    return 0


def explain(options: argparse.Namespace) -> int:
    """`dcompile explain DC401`: the rule's page."""
    from dcompile.codes import CODES
    from dcompile.rules.catalog import FIT_RULES, RULES

    code = options.code.upper()
    if code not in CODES:
        print(f"dcompile: there is no code {options.code}; codes look like DC401", file=sys.stderr)
        return 2
    print(f"{code} {CODES[code]}\n")
    for rule in (*RULES, *FIT_RULES):
        if rule.code == code:
            print((sys.modules[rule.check.__module__].__doc__ or "").strip())
            return 0
    print(f"Found while the recipe is read: {CODES[code].replace('-', ' ')}.")
    return 0
