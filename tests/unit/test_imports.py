"""What may import what: `check` stays light, and stages know only the stages before them."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import dcompile
import pytest

PACKAGE = Path(dcompile.__file__).parent
ROOT = Path(__file__).parents[2]
HEAVY = ("torch", "diffusers", "transformers", "accelerate", "jsonschema", "numpy", "safetensors", "huggingface_hub")
STAGES = (
    "source",
    "recipe",
    "facts",
    "layout",
    "memory",
    "estimate",
    "rules",
    "plan",
    "lower",
    "emit",
    "runtime",
    "machine",
    "cli",
)

# What each stage may import of the package, beside itself. `core` knows no stage.
MAY = {
    "core": set(),
    "source": {"core"},
    "recipe": {"core", "source"},
    "facts": {"core", "recipe"},
    "layout": {"core", "recipe", "facts"},
    "memory": {"core", "recipe", "facts", "layout"},
    "estimate": {"core", "recipe", "facts", "layout"},
    "rules": {"core", "recipe", "facts", "layout", "memory", "estimate"},
    "plan": {"core", "recipe", "facts", "layout", "memory", "estimate", "rules"},
    "lower": {"core", "recipe", "facts", "layout", "plan"},
    "emit": {"core", "recipe", "facts", "layout", "plan", "lower"},
    "runtime": {"core", "emit"},
    "machine": {"core", "facts", "runtime"},
}
# The commands that write `models/*.json`; no stage imports them.
GENERATOR = {
    *(PACKAGE / "facts").glob("generate*.py"),
    *(PACKAGE / "memory").glob("measure*.py"),
    PACKAGE / "memory" / "fitting.py",
    PACKAGE / "memory" / "live_storages.py",
}
GENERATES = (
    "dcompile.facts.generate",
    "dcompile.memory.measure",
    "dcompile.memory.fitting",
    "dcompile.memory.live_storages",
)
# Third-party packages of each stage; the runtime and the command line have those of the extra `run` too.
OUTSIDE = {
    "core": {"jsonschema"},  # where plans are written and read; not on the way of `check`
    "source": {"yaml"},
    "recipe": {"pydantic", "pydantic_core"},
    "facts": {"pydantic"},
    "layout": set(),
    "memory": set(),
    "estimate": set(),
    "rules": {"pydantic"},
    "plan": {"pydantic"},
    "lower": set(),
    "emit": set(),
}


def imports_of(file: Path) -> set[str]:
    """Every module that a file imports, wherever in the file."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: a relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module or ""}
    return found


def stages_of(file: Path) -> set[str]:
    parts = [name.split(".") for name in imports_of(file) if name.startswith("dcompile.")]
    return {part[1] for part in parts if (PACKAGE / part[1]).is_dir() or (PACKAGE / f"{part[1]}.py").is_file()}


def loaded_after(arguments: list[str]) -> set[str]:
    code = (
        "import sys; from dcompile.cli.main import main; code = main(sys.argv[1:]); "
        "print('MODULES', *sys.modules); sys.exit(code)"
    )
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=60)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.rpartition("MODULES")[2].split())


@pytest.mark.parametrize("recipe", ["recipes/flux1-dev-tensor4.yaml", "recipes/quickstart.yaml"])
def test_check_imports_nothing_heavy(recipe: str) -> None:
    loaded = loaded_after(["check", recipe])
    assert "pydantic" in loaded
    assert loaded.isdisjoint(HEAVY)
    # What nobody asked for: the stages behind it, other commands, and the search.
    behind = ("dcompile.plan.build", "dcompile.lower", "dcompile.emit", "dcompile.plan.auto.choose")
    assert loaded.isdisjoint((*behind, "dcompile.cli.doctor", "dcompile.cli.diff"))


def test_a_known_model_needs_one_model_file() -> None:
    code = (
        "from pathlib import Path; from dcompile.facts import registry; from dcompile.driver import compile_recipe; "
        "assert compile_recipe(Path('recipes/flux1-dev-tensor4.yaml')).is_valid; "
        "assert registry.load_model.cache_info().currsize == 1"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=60)


def test_the_package_itself_imports_nothing_heavy() -> None:
    code = f"import sys, dcompile; sys.exit(bool({set(HEAVY)!r} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


@pytest.mark.parametrize("stage", MAY)
def test_stages_import_only_what_comes_before(stage: str) -> None:
    files = sorted(set((PACKAGE / stage).rglob("*.py")) - GENERATOR)
    assert files
    for file in files:
        assert stages_of(file) <= MAY[stage] | {stage}, file


@pytest.mark.parametrize("stage", OUTSIDE)
def test_stages_import_few_packages(stage: str) -> None:
    known = set(sys.stdlib_module_names) | {"dcompile"}
    for file in sorted(set((PACKAGE / stage).rglob("*.py")) - GENERATOR):
        outside = {name.partition(".")[0] for name in imports_of(file)} - known
        assert outside <= OUTSIDE[stage], file


def test_no_stage_imports_the_generators() -> None:
    for file in sorted(set(PACKAGE.rglob("*.py")) - GENERATOR):
        assert not any(name.startswith(GENERATES) for name in imports_of(file)), file


def test_only_check_makes_a_checked_recipe() -> None:
    for file in sorted(PACKAGE.rglob("*.py")):
        calls = [node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
        makes = any(isinstance(call.func, ast.Name) and call.func.id == "CheckedRecipe" for call in calls)
        assert makes == (file == PACKAGE / "rules" / "check.py"), file


def test_every_folder_is_a_stage_or_data() -> None:
    folders = {folder.name for folder in PACKAGE.iterdir() if folder.is_dir() and folder.name != "__pycache__"}
    assert folders - {"core", "models", "hardware", "schemas"} == set(STAGES)


def test_test_files_have_names_of_their_own() -> None:
    """pytest imports the files of folders that are no packages by their bare name."""
    tests = ROOT / "tests"
    names = [file.name for file in tests.rglob("test_*.py") if not (file.parent / "__init__.py").exists()]
    assert sorted(name for name in set(names) if names.count(name) > 1) == []
