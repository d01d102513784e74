"""What a class of diffusers has after its blocks, from its source: parts that may lie on the device of the last block.

A part belongs to the tail where `__init__` makes it after the last list of blocks and `forward` does nothing with it
but call it (or ask whether it is there): then its inputs can be moved to another device and its output back.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from typing import Any

import diffusers


def describe_tails() -> dict[str, list[str]]:
    """The tail of each class of diffusers that has one."""
    found = {}
    for name in sorted(dir(diffusers)):
        cls = getattr(diffusers, name, None)
        if inspect.isclass(cls) and issubclass(cls, diffusers.ModelMixin) and cls is not diffusers.ModelMixin:
            found[name] = tail_of(cls)
    return {name: tail for name, tail in found.items() if tail}


def tail_of(cls: Any) -> list[str]:
    """The tail of a class, in the order of `__init__`."""
    made = list(_made(_tree(cls.__init__)))
    lists = [at for at, (_, is_list) in enumerate(made) if is_list]
    if not lists:
        return []
    behind = dict.fromkeys(name for name, _ in made[lists[-1] + 1 :])
    used = _used_otherwise(_tree(cls.forward))
    called = _called(_tree(cls.forward))
    return [name for name in behind if name in called and name not in used]


def _tree(function: Any) -> ast.Module:
    return ast.parse(textwrap.dedent(inspect.getsource(function)))


def _made(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """What a constructor assigns to `self`, in order of lines, and whether it is a list of modules."""
    assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    for node in sorted(assigned, key=lambda node: node.lineno):
        for target in node.targets:
            if _is_own(target):
                assert isinstance(target, ast.Attribute)
                yield target.attr, "ModuleList" in ast.dump(node.value)


def _is_own(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def _called(tree: ast.Module) -> set[str]:
    return {
        node.func.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_own(node.func)
    }


def _used_otherwise(tree: ast.Module) -> set[str]:
    """What is read of `self` but neither called nor asked for: a weight used by itself stays where it is."""
    fine = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.If):
            fine.add(id(node.test))
            if isinstance(node.test, ast.Compare):
                fine.add(id(node.test.left))
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and _is_own(node) and id(node) not in fine
    }
