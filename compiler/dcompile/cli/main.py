"""`dcompile`: arguments to stages to rendering, and the exit codes.

0 fine, 1 the recipe is wrong, 2 the job could not be done, 3 different or out of date (only with `--check` or
`--exit-code`), 4 the run failed, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module

from dcompile import __version__
from dcompile.cli import probe
from dcompile.core.meant import meant

COMMANDS = {
    "compile": "commands.compile_",
    "check": "commands.check",
    "run": "commands.run",
    "config": "commands.config",
    "schema": "commands.schema",
    "models": "models.models",
    "hardware": "commands.hardware",
    "doctor": "doctor.doctor",
    "init": "commands.init",
    "probe": "probe.probe",
    "explain": "commands.explain",
    "diff": "diff.diff",
}
"""The function of each command, as `module.function`: only the module of the one that is asked for is imported."""


def parser() -> argparse.ArgumentParser:
    """The whole command line. `dcompile RECIPE` is `dcompile compile RECIPE`."""
    top = argparse.ArgumentParser(
        prog="dcompile",
        description="Checks, compiles and runs recipes of multi-device diffusion pipelines.",
        epilog="`dcompile RECIPE` compiles a recipe to build/<name>/ and prints what lies on each device.",
    )
    top.add_argument("--version", action="version", version=f"dcompile {__version__}")
    sub = top.add_subparsers(dest="command", required=True, metavar="COMMAND | RECIPE")

    def command(name: str, text: str, *, recipe: bool = False, result: str = "") -> argparse.ArgumentParser:
        made = sub.add_parser(name, help=text, description=text)
        made.add_argument("--traceback", action="store_true", help="show the traceback of a failure")
        if recipe:
            made.add_argument("recipe", metavar="RECIPE")
            made.add_argument("--format", choices=("text", "json"), default="text", help=f"json: {result}")
            _overrides(made)
        return made

    compile_ = command(
        "compile",
        "check, plan and lower a recipe; write build/<name>/",
        recipe=True,
        result="findings, what was planned, and the files, as one object",
    )
    compile_.add_argument(
        "--check", action="store_true", help="write nothing; exit 3 where build/<name>/ is not current"
    )
    check = command("check", "find every mistake in recipes, without a GPU, weights or network")
    check.add_argument("recipes", metavar="FILE", nargs="+")
    check.add_argument("--format", choices=("text", "json", "github", "sarif"), default="text")
    check.add_argument("--fix", action="store_true", help="make the edits for which there is exactly one right way")
    check.add_argument("--diff", action="store_true", help="show what --fix would change, and change nothing")
    check.add_argument("--strict", action="store_true", help="warnings are errors")
    check.add_argument("--skip-foreign", action="store_true", help="skip files that are no recipes (for the hook)")
    _overrides(check)
    run = command(
        "run",
        "compile a recipe and run it here",
        recipe=True,
        result="findings, what was made and where, as one object at the end",
    )
    run.add_argument("--overwrite", action="store_true", help="make pictures again that are complete")
    run.add_argument("--progress", choices=("auto", "bar", "plain", "none"), default="auto")
    run.add_argument("--trust-remote-code", action="store_true", help="confirm a recipe's `trust_remote_code`")
    config = command(
        "config",
        "print the recipe in full, with defaults",
        recipe=True,
        result="findings, the recipe, and where each value comes from, as one object",
    )
    config.add_argument("--origins", action="store_true", help="say where each value comes from")
    schema = command("schema", "print a JSON Schema")
    schema.add_argument("which", nargs="?", choices=("recipe", "plan"), default="recipe")
    for name, text in (("models", "list the models known without a network"), ("hardware", "list the known devices")):
        made = command(name, text)
        made.add_argument("--format", choices=("text", "json"), default="text")
        if name == "models":
            _add_model(made)
    init = command("init", "write a recipe that runs on this machine")
    init.add_argument("--model", required=True, metavar="ID", help="a known hub id")
    init.add_argument("--output", "-o", default="recipe.yaml", metavar="FILE")
    check_up = command("doctor", "say what is installed, and what is missing for a recipe")
    check_up.add_argument("recipe", metavar="RECIPE", nargs="?")
    check_up.add_argument("--format", choices=("text", "json"), default="text")
    _overrides(check_up)
    measure = command("probe", "measure this machine and write a file that recipes can name as `devices`")
    probe.add_arguments(measure)
    _overrides(measure)
    explain = command("explain", "explain a code, such as DC401, or why a recipe has the plan that it has")
    explain.add_argument("what", metavar="CODE | RECIPE")
    explain.add_argument("--format", choices=("text", "json"), default="text")
    _overrides(explain)
    compare = command("diff", "say what moves between two recipes or plans, per device and per step")
    for side in ("a", "b"):
        compare.add_argument(side, metavar=side.upper(), help="a recipe, a plan.json or a bundle's folder")
    compare.add_argument("--format", choices=("text", "json"), default="text")
    compare.add_argument("--exit-code", action="store_true", help="exit 3 where they differ")
    compare.add_argument("--root", action="append", default=[], metavar="DIR", help="where bases of `extends` may lie")
    return top


def _add_model(made: argparse.ArgumentParser) -> None:
    text = "write a facts file for a model of your own, to commit beside the recipes"
    add = made.add_subparsers(dest="action", metavar="add").add_parser("add", help=text, description=text)
    add.add_argument("model", metavar="PATH_OR_ID", help="a folder, a .safetensors file, or an id in the hub's cache")
    add.add_argument("--id", help="the id that recipes name; the folder's or file's name otherwise")
    add.add_argument("--out", metavar="FILE", help=".dcompile/models/<owner>--<name>.json otherwise")
    add.add_argument("--variant", help="the variant of the weight files, such as fp16")
    add.add_argument("--revision", help="the branch, tag or commit in the hub's cache")
    add.add_argument("--traceback", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)


def _overrides(made: argparse.ArgumentParser) -> None:
    made.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override a value; YAML")
    made.add_argument("--devices", metavar="FILE", help="the machine: a file in place of the recipe's `devices`")
    made.add_argument("--root", action="append", default=[], metavar="DIR", help="where bases of `extends` may lie")


def _slip(word: str, known: Iterable[str]) -> str | None:
    """The command that was meant by a first word that is neither a command nor a recipe."""
    if os.path.splitext(word)[1] or os.sep in word or os.path.exists(word):
        return None
    return meant(word, known)


def _function(command: str) -> Callable[[argparse.Namespace], int]:
    module, _, name = COMMANDS[command].partition(".")
    function: Callable[[argparse.Namespace], int] = getattr(import_module(f"dcompile.cli.{module}"), name)
    return function


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given:
        parser().print_help(sys.stderr)
        return 2
    if given[0].startswith("-") and given[0] not in ("-h", "--help", "--version") and not set(given) & set(COMMANDS):
        given.insert(0, "compile")  # options may stand before the recipe
    if not given[0].startswith("-") and given[0] not in COMMANDS:
        if (near := _slip(given[0], COMMANDS)) is not None:
            print(f"dcompile: there is no command `{given[0]}`; did you mean `{near}`?", file=sys.stderr)
            return 2
        given.insert(0, "compile")
    options, rest = parser().parse_known_args(given)
    if rest:
        name = "dcompile" if options.command == "compile" else f"dcompile {options.command}"
        print(f"dcompile: `{name}` takes no `{rest[0]}`; `{name} --help` says what it takes", file=sys.stderr)
        return 2
    try:
        return _function(options.command)(options)
    except KeyboardInterrupt:
        print("dcompile: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader (`| head`) has gone; without this Python complains again when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 2
    except OSError as error:
        if options.traceback:
            raise
        where = f"{error.filename}: " if error.filename else ""
        print(f"dcompile: {where}{error.strerror or error}", file=sys.stderr)
        return 2
    except Exception as error:
        if options.traceback:
            raise
        print(f"dcompile: DC901 this is a bug in dcompile ({type(error).__name__}: {error})", file=sys.stderr)
        print("  run again with --traceback and report what it prints", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
