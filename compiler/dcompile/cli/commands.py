"""One function for each command: it calls the driver and prints. Results go to stdout, everything else to stderr."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

from dcompile.cli import render
from dcompile.core.diagnostics import Diagnostic, Severity, dotted
from dcompile.core.units import format_bytes
from dcompile.driver import Compiled, compile_recipe
from dcompile.facts.resolve import BROKEN_WEIGHTS
from dcompile.recipe.model import Recipe
from dcompile.source.files import read_text


def _compile(options: argparse.Namespace, file: str) -> Compiled:
    return compile_recipe(Path(file), overrides(options), [Path(root) for root in options.root])


def overrides(options: argparse.Namespace) -> list[str]:
    """What the command line puts in place of the recipe's own: the machine first, then single values."""
    if options.devices is None:
        return list(options.set)
    return [f"devices={json.dumps(os.path.relpath(options.devices))}", *options.set]


def _is_foreign(compiled: Compiled, file: str) -> bool:
    from dcompile.cli.foreign import is_foreign

    return is_foreign(compiled, read_text(Path(file)))


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
        if options.skip_foreign and _is_foreign(compiled, file):
            print(f"dcompile: {file}: skipped, it is no recipe", file=sys.stderr)
            continue
        if options.fix or options.diff:
            compiled = _fix(options, file, compiled)
        findings += render.locate(compiled.diagnostics, compiled.document, file, options.strict)
        # Notes about this machine are not raised: with the same options the verdict is the same everywhere.
        findings += render.locate(_other_versions(compiled), compiled.document, file, strict=False)
    wrong = any(finding.diagnostic.severity is Severity.ERROR for finding in findings)
    if options.format == "text":
        text = render.as_text(findings, render.wants_colour(sys.stdout))
    elif options.format == "json":
        text = render.as_json(findings)
    else:
        from dcompile.cli.formats import as_github, as_sarif

        text = as_github(findings) if options.format == "github" else as_sarif(findings)
    if text:
        print(text)
    if options.format == "text" and not wrong and not unreadable:
        count = len(options.recipes)
        print(f"dcompile: {count} file{'s' if count != 1 else ''} checked, no errors", file=sys.stderr)
    return 2 if unreadable else int(wrong)


def _fix(options: argparse.Namespace, file: str, compiled: Compiled) -> Compiled:
    """Mend a recipe's text, or show how; what is still wrong with it is the result."""
    from dcompile.cli.fix import difference, fixed, write

    old = Path(file).read_bytes()
    roots = [Path(root) for root in options.root]
    new, changes = fixed(file, old, lambda text: compile_recipe(Path(file), overrides(options), roots, text))
    if options.diff:
        print(difference(file, old, new), end="")
        return compiled
    if not changes:
        return compiled
    write(Path(file), new)
    for change in changes:
        print(f"dcompile: {file}:{change}", file=sys.stderr)
    return _compile(options, file)


def _other_versions(compiled: Compiled) -> list[Diagnostic]:
    """What is installed here in another version. Not part of the verdict, which is the same on every machine."""
    from dcompile.cli.environment import version_warnings

    if compiled.recipe is None or compiled.facts is None or compiled.checked is None:
        return []
    return version_warnings(compiled.facts.model.requires(compiled.recipe.requires), compiled.recipe.requires)


def compile_or_report(options: argparse.Namespace) -> Compiled | None:
    """The compiled recipe of a command that needs a valid one; its diagnostics go to stderr."""
    compiled = _compile(options, options.recipe)
    render.report(compiled)
    return compiled if compiled.is_valid else None


def _write(options: argparse.Namespace, compiled: Compiled) -> Path | None:
    from dcompile.emit.bundle import bundle_folder, write_bundle

    if options.format == "text" or options.command == "run":
        render.report(compiled)
    if not compiled.is_valid or compiled.plan_json is None or compiled.bundle is None:
        return None
    return write_bundle(compiled.bundle, bundle_folder(compiled.plan_json))


def compile_(options: argparse.Namespace) -> int:
    """`dcompile RECIPE`: write the bundle and print what lies on each device; `--check` asks whether it is current."""
    from dcompile.cli import results
    from dcompile.cli.summary import summary_lines

    is_json = options.format == "json"
    compiled = _compile(options, options.recipe)
    if options.check:
        from dcompile.cli.diff import check_bundle

        if not is_json:
            render.report(compiled)
        if compiled.is_valid:
            return check_bundle(compiled, is_json)
    path = None if options.check else _write(options, compiled)
    if path is None or compiled.plan_json is None or compiled.bundle is None:
        if is_json:
            results.print_result(compiled, {"status": "wrong"})
        return 1
    if is_json:
        result = {"status": "written", **results.of_bundle(compiled.bundle, path.parent)}
        results.print_result(compiled, result)
        return 0
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 80
    print("\n".join(summary_lines(compiled.plan_json, width, render.wants_colour(sys.stdout))))
    print(f"  written: {path.parent}/")
    return 0


def run(options: argparse.Namespace) -> int:
    """`dcompile run RECIPE`: compile, then start the ranks."""
    from dcompile.cli import results

    compiled = _compile(options, options.recipe)
    path = _write(options, compiled)
    if path is None or compiled.plan_json is None or compiled.recipe is None:
        if options.format == "json":
            results.print_result(compiled, {"status": "wrong"})
        is_broken = {item.code for item in compiled.diagnostics if item.severity is Severity.ERROR} == {BROKEN_WEIGHTS}
        return 4 if is_broken else 1
    refusal = _refusal(options, compiled.plan_json, compiled.recipe)
    if refusal is not None:
        print(f"dcompile: {refusal}", file=sys.stderr)
        if options.format == "json":
            result = {"status": "refused", "plan": str(path), "error": {"rank": None, "message": refusal}}
            results.print_result(compiled, result)
        return 2
    from dcompile.runtime.launch import perform

    root = Path(options.recipe).resolve().parent
    # What libraries print is no result.
    with redirect_stdout(sys.stderr) if options.format == "json" else nullcontext():
        outcome = perform(
            path, root, overwrite=options.overwrite, progress=options.progress, traceback=options.traceback
        )
    if options.format == "json" and outcome.rank in (None, 0):  # of a launcher's ranks one speaks
        results.print_result(compiled, results.of_run(compiled.plan_json, path, outcome))
    return outcome.end()


def _refusal(options: argparse.Namespace, plan: dict[str, Any], recipe: Recipe) -> str | None:
    """Why a plan cannot be run here; None where it can."""
    from dcompile.cli import environment

    if missing := environment.missing_packages(plan):
        return f"running needs more packages: pip install {shlex.join(missing)}"
    if recipe.model.trust_remote_code and not options.trust_remote_code:
        return "the recipe asks for code from the model's repository: confirm it with --trust-remote-code"
    for name, wanted, here in environment.other_versions(plan["requires"]):
        return f"the plan is for {name} {wanted}, and {here} is installed"
    return environment.too_many_processes(plan)


def config(options: argparse.Namespace) -> int:
    """`dcompile config RECIPE`: the recipe in full; `--origins` says where each value comes from."""
    import yaml

    from dcompile.cli import results
    from dcompile.recipe.canonical import canonical
    from dcompile.source.document import items

    compiled = _compile(options, options.recipe)
    if options.format == "json":
        is_read = compiled.recipe is not None and compiled.document is not None
        results.print_result(compiled, results.of_config(compiled) if is_read else {"recipe": None, "origins": {}})
        return 0 if is_read else 1
    if compiled.recipe is None or compiled.document is None:
        render.report(compiled)
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
    from dcompile.core.plan_schema import plan_schema
    from dcompile.recipe.schema import schema_text

    print(schema_text() if options.which == "recipe" else json.dumps(plan_schema(), indent=2) + "\n", end="")
    return 0


def hardware(options: argparse.Namespace) -> int:
    """`dcompile hardware`: the known devices."""
    from dcompile.facts import registry

    known = [registry.load_hardware(name) for name in registry.known_hardware()]
    if options.format == "json":
        table = [{key: value for key, value in vars(device).items() if key != "measured"} for device in known]
        print(json.dumps(table, indent=2))
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
    text, chosen, problem = recipe_text(options.model, path.parent)
    if problem:
        print(f"dcompile: {problem}", file=sys.stderr)
        return 2
    from dcompile.core.files import write_whole

    write_whole(path, text)
    print(f"{path}: {chosen}")
    return 0


def explain(options: argparse.Namespace) -> int:
    """`dcompile explain DC401`: the code's page; `dcompile explain RECIPE`: why this plan."""
    from dcompile.cli.fixable import said_of
    from dcompile.cli.rule_pages import family_of, text_of
    from dcompile.codes import CODES

    named = {name: code for code, name in CODES.items()}
    code = named.get(options.what, f"DC{options.what.upper().removeprefix('DC')}")
    if code in CODES and not Path(options.what).exists():
        family, where = family_of(code)
        text = f"{text_of(code)}\n\n{said_of(code)}\n\n{family}: {where}."
        if options.format == "json":
            print(json.dumps({"code": code, "name": CODES[code], "text": text}, indent=2))
        else:
            print(f"{code} {CODES[code]}\n\n{text}")
        return 0
    if re.fullmatch(r"DC\d*", code) and not Path(options.what).exists():
        print(f"dcompile: there is no code {options.what}; codes look like DC401", file=sys.stderr)
        return 2
    if not Path(options.what).exists():
        print(f"dcompile: `{options.what}` is neither a code, such as DC401, nor a recipe here", file=sys.stderr)
        return 2
    from dcompile.cli.explain import explain_lines, explanation

    compiled = _compile(options, options.what)
    render.report(compiled)
    if not compiled.is_valid:
        return 1
    found = explanation(compiled)
    print(json.dumps(found, indent=2) if options.format == "json" else "\n".join(explain_lines(found)))
    return 0
