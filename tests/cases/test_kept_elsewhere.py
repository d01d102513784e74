"""What a case leaves to another test is there, under the name that its docstring gives."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
NAME = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def named() -> list[tuple[str, str]]:
    """File and test of every reference in the cases' docstrings."""
    found = set()
    for file in HERE.glob("test_*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.Module)):
                found |= set(NAME.findall(ast.get_docstring(node) or ""))
    return sorted(found)


@pytest.mark.parametrize(("file", "test"), named(), ids=lambda part: part.rpartition("/")[2])
def test_it_is_there(file: str, test: str) -> None:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    assert functions
    assert not test or test in functions
