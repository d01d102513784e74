"""The hook, end to end: the real pre-commit installs it from a clone of this repository, in its own environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GOOD = (ROOT / "recipes" / "flux1-dev-tensor4.yaml").read_text(encoding="utf-8")
BAD = GOOD.replace("degree: 4", "degree: 5").replace("per_node: 4", "per_node: 5")
COMPOSE = "services:\n  web: {image: x}\n"


def git(folder: Path, *arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    own = ["-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "commit.gpgsign=false"]
    return subprocess.run(
        ["git", *own, *arguments], cwd=folder, capture_output=True, text=True, check=False, env=environment, timeout=900
    )


def hook_repository(folder: Path) -> str:
    """A repository with this working tree in it, and its commit."""
    listed = subprocess.run(
        [
            "git",
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
            "-z",
            "--",
            "compiler",
            ":(top,glob)*",
            ":(top).pre*",
        ],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout.decode()
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    assert git(folder, "commit", "-q", "-m", "hook").returncode == 0
    return git(folder, "rev-parse", "HEAD").stdout.strip()


@pytest.mark.slow
def test_the_hook(tmp_path: Path) -> None:
    hook, work = tmp_path / "hook", tmp_path / "work"
    hook.mkdir()
    (work / "recipes").mkdir(parents=True)
    revision = hook_repository(hook)
    (work / ".pre-commit-config.yaml").write_text(
        f"repos:\n  - repo: {hook}\n    rev: {revision}\n    hooks: [{{id: dcompile}}]\n", encoding="utf-8"
    )
    # An environment without ours: the hook must bring all it needs.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "GIT_"))}
    environment |= {
        "PRE_COMMIT_HOME": str(tmp_path / "home"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    git(work, "init", "-q")
    installed = subprocess.run(
        [sys.executable, "-m", "pre_commit", "install"], cwd=work, env=environment, capture_output=True, check=False
    )
    assert installed.returncode == 0, installed.stdout + installed.stderr

    def commit(files: dict[str, str]) -> tuple[bool, str]:
        """Whether a commit with these files went through, and what was said."""
        for name, text in files.items():
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            (work / name).write_text(text, encoding="utf-8")
        git(work, "add", "-A")
        done = git(work, "commit", "-m", "x", environment=environment)
        return done.returncode == 0, done.stdout + done.stderr

    passed, said = commit({"recipes/good.yaml": GOOD, "notes.yaml": "- a\n- a: {a\n"})
    assert passed, said
    assert "Passed" in said
    passed, said = commit({"recipes/bad.yaml": BAD})
    assert not passed
    assert "recipes/bad.yaml:" in said
    assert "error DC401" in said
    assert "good.yaml" not in said
    assert git(work, "log", "--oneline").stdout.count("\n") == 1
    passed, said = commit({"recipes/bad.yaml": GOOD})
    assert passed, said
    passed, said = commit({"recipes/compose.yaml": COMPOSE, "recipes/readme.md": "version: x\n", "other/bad.yaml": BAD})
    assert passed, said
    packages = {path.name for path in (tmp_path / "home").glob("repo*/py_env-*/lib/python*/site-packages/*")}
    assert "pydantic" in packages
    assert packages.isdisjoint({"torch", "diffusers", "transformers", "accelerate", "numpy"})
