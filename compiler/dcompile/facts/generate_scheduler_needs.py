"""What a pipeline asks of its scheduler, read from the pipeline's source. Part of `facts/generate.py`."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from typing import Any

import diffusers

_GUARDS = ("hasattr", "getattr")
_ALWAYS = {"num_inference_steps", "device"}
"""Arguments that every `set_timesteps` takes."""


def pipeline_needs(cls: Any) -> dict[str, Any]:
    """What a pipeline class uses of its scheduler, beside what every scheduler has.

    Returns:
        `attributes`: names on the scheduler, used without asking for them first; `attributes_with`: those that are
        used only where an argument of the call, which is off by default, is on. `set_timesteps`, `step`: arguments
        that every call passes by name; `step_arguments`: those that it passes by place. `set_timesteps_of` and
        `step_arguments_of`: those for a class that has a call of its own. `flow_guard`: `sigmas` are
        not passed where the scheduler's `use_flow_sigmas` is on. `mu_guard`: `mu` is passed where
        `use_dynamic_shifting` is on, and not otherwise. `hands_generator`: every `step` gets the call's generator
        where it takes one.
    """
    attributes: set[str] = set()
    attributes_with: dict[str, set[str]] = {}
    passes: set[str] = set()
    steps: list[tuple[int, set[str]]] = []
    own_passes: dict[str, set[str]] = {}
    own_steps: dict[str, int] = {}
    flow_guard = asks_dynamic = False
    hands: list[bool] = []
    for method in _methods(cls):
        tree = source_tree(method)
        guarded, conditional, switched = _guarded(tree), _conditional(tree), _switched(tree)
        of_class = _of_one_class(tree)
        extra = _with_generator(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant):
                flow_guard |= node.value == "use_flow_sigmas"
                asks_dynamic |= node.value == "use_dynamic_shifting"
            if isinstance(node, ast.Attribute) and _is_scheduler(node.value) and node not in conditional:
                switch = switched.get(node)
                (attributes if switch is None else attributes_with.setdefault(switch, set())).update(
                    {node.attr} - guarded
                )
            if not isinstance(node, ast.Call):
                continue
            named = {keyword.arg for keyword in node.keywords if keyword.arg}
            passed = {k.arg for k in node.keywords if k.arg and k.arg != "timesteps" and _is_set(tree, k.value)}
            if _is_method(node, "step"):
                if node in of_class:
                    own_steps[of_class[node]] = len(node.args)
                elif not any(isinstance(argument, ast.Starred) for argument in node.args):
                    steps.append((len(node.args), named))
                hands.append(any(_hands_generator(keyword, extra) for keyword in node.keywords))
            elif _is_method(node, "set_timesteps") or (
                last_name(node.func) == "retrieve_timesteps" and node.args and _is_scheduler(node.args[0])
            ):
                (own_passes.setdefault(of_class[node], set()) if node in of_class else passes).update(
                    passed | _unpacked(tree, node)
                )
    common = set.intersection(*(names for _, names in steps)) if steps else set()
    return {
        "attributes": sorted(attributes - {"config"}),
        "attributes_with": {
            switch: sorted(names - attributes) for switch, names in attributes_with.items() if names - attributes
        },
        "set_timesteps": sorted(passes - _ALWAYS),
        "set_timesteps_of": {name: sorted(names - _ALWAYS) for name, names in own_passes.items()},
        "step": sorted(common - {"return_dict"}),
        "step_arguments": min((count for count, _ in steps), default=3),
        "step_arguments_of": own_steps,
        "flow_guard": flow_guard,
        "mu_guard": asks_dynamic and "mu" not in passes,
        "hands_generator": bool(hands) and all(hands),
    }


def _unpacked(tree: ast.AST, call: ast.Call) -> set[str]:
    """Names of arguments that a call gets as a whole: `scheduler_kwargs = {"mu": mu}`, `f(**scheduler_kwargs)`.

    What is added to them later is added under a condition.
    """
    names = {last_name(keyword.value) for keyword in call.keywords if keyword.arg is None}
    return {
        str(key.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict) and last_name(node.targets[0]) in names
        for key in node.value.keys
        if isinstance(key, ast.Constant)
    }


def _hands_generator(keyword: ast.keyword, extra: set[str]) -> bool:
    """Whether an argument of `step` is the call's own generator, or holds it among others."""
    name = last_name(keyword.value)
    return name == "generator" if keyword.arg == "generator" else keyword.arg is None and name in extra


def _with_generator(tree: ast.AST) -> set[str]:
    """Names of what is made of the call's generator: `extra = self.prepare_extra_step_kwargs(generator)`."""
    return {
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        if any(last_name(argument) == "generator" for argument in node.value.args)
        if (name := last_name(node.targets[0])) is not None
    }


def source_tree(code: Any) -> ast.AST:
    """The source of a class or method; an indented one is put under a header, for texts in it start anywhere."""
    source = inspect.getsource(code)
    return ast.parse(f"class _:\n{source}" if source[0].isspace() else source)


def last_name(node: ast.AST) -> str | None:
    """`c` of `a.b.c` and of `c`."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None


def _methods(cls: Any) -> Iterator[Any]:
    """The class's methods, those of pipelines that it inherits from where it has not its own."""
    methods: dict[str, Any] = {}
    for owner in reversed(cls.__mro__):
        if owner.__module__.startswith("diffusers.pipelines") and owner is not diffusers.DiffusionPipeline:
            methods |= vars(owner)
    for value in methods.values():
        plain = inspect.unwrap(value) if callable(value) else None
        if inspect.isfunction(plain):
            yield plain


def _is_scheduler(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "scheduler" and last_name(node.value) == "self"


def _is_method(node: ast.Call, name: str) -> bool:
    return isinstance(node.func, ast.Attribute) and node.func.attr == name and _is_scheduler(node.func.value)


def _guarded(tree: ast.AST) -> set[str]:
    """Attributes that the method asks for with `hasattr` or `getattr` first."""
    return {
        node.args[1].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and last_name(node.func) in _GUARDS
        and len(node.args) > 1
        and isinstance(node.args[1], ast.Constant)
        and isinstance(node.args[1].value, str)
    }


def _conditional(tree: ast.AST) -> set[ast.AST]:
    """What runs for some schedulers only: branches whose condition looks at the scheduler."""
    found: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.If, ast.IfExp)) and any(_is_scheduler(part) for part in ast.walk(node.test)):
            found |= set(ast.walk(node)) - set(ast.walk(node.test))
    return found


def _of_one_class(tree: ast.AST) -> dict[ast.AST, str]:
    """What runs only where the scheduler is of a class that the method asks for, with the class's name."""
    found: dict[ast.AST, str] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.If):
            continue
        is_not = isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not)
        test = node.test.operand if isinstance(node.test, ast.UnaryOp) else node.test
        if (
            isinstance(test, ast.Call)
            and last_name(test.func) == "isinstance"
            and _is_scheduler(test.args[0])
            and (name := last_name(test.args[1])) is not None
        ):
            found |= {part: name for inner in (node.orelse if is_not else node.body) for part in ast.walk(inner)}
    return found


def _switched(tree: ast.AST) -> dict[ast.AST, str]:
    """What runs only where an argument is on that is off by default, with the argument's name."""
    signatures = [node.args for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    off = {
        argument.arg
        for signature in signatures
        for argument, default in zip(reversed(signature.args), reversed(signature.defaults), strict=False)
        if isinstance(default, ast.Constant) and default.value is False
    }
    found: dict[ast.AST, str] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.If):
            continue
        tests = node.test.values if isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.And) else None
        names = {last_name(test) for test in tests or [node.test] if isinstance(test, ast.Name)} & off
        if names:
            found |= {part: str(min(filter(None, names))) for inner in node.body for part in ast.walk(inner)}
    return found


def _is_set(tree: ast.AST, value: ast.AST) -> bool:
    """Whether an argument has a value though the caller gave none: the method assigns to its name."""
    if not isinstance(value, ast.Name):
        return not (isinstance(value, ast.Constant) and value.value is None)
    return any(
        isinstance(node, ast.Assign)
        and any(last_name(target) == value.id for target in node.targets)
        and not (isinstance(node.value, ast.Constant) and node.value.value is None)
        for node in ast.walk(tree)
    )
