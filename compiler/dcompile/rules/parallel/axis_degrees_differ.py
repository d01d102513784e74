"""Two components are split over one axis of the mesh by different degrees.

What it checks: that all components that `context` splits have the same ulysses and the same ring, and all that
`tensor` splits the same degree.

Why it matters: all components live on one mesh. diffusers splits the tokens over the whole context group of the mesh
and exchanges heads by the component's own degree; where the two differ the picture is wrong in silence.

Example: `components: {transformer: {context: {ulysses: 4}}, transformer_2: {context: {ulysses: 2}}}`

Use instead: one `context` at the top level of `parallel`

Source: diffusers 0.42.1, `models/_modeling_parallel.py:137`, `models/attention_dispatch.py:2557` (rows CPC-10, CMB-08).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.layout.splits import Split
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    if subject.splits.is_one_mesh:
        return
    splits = subject.splits.components
    for kind in ("context", "tensor"):
        split_so = {name: split for name, split in splits.items() if getattr(split, kind) > 1}
        said = {name: _said(split, kind) for name, split in split_so.items()}
        first = next(iter(split_so), None)
        for name, split in split_so.items():
            if first is not None and said[name] != said[first]:
                message = f"`{name}` is split by {said[name]} and `{first}` by {said[first]}, over one mesh"
                hint = f"write one `{kind}` at the top level of `parallel`, or leave one of the two whole"
                yield error("DC415", message, hint, split.where)


def _said(split: Split, kind: str) -> str:
    return f"tensor {split.tensor}" if kind == "tensor" else f"ulysses {split.ulysses} x ring {split.ring}"


RULE = Rule("DC415", check)
