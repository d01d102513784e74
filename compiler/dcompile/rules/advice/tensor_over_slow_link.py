"""Tensor parallel over a slow link.

What it checks: `tensor` on devices that are linked by PCIe.

Why it matters: two all-reduces a block can cost more than the split saves.

Example: `gpu: l40s` with `tensor: 4`

Use instead: `device_map`, or `context` where the weights fit

Source: hardware.md 8.3: all-reduce over four L40S reaches 5 GB/s, over four H100 300 GB/s (rules.md TPC-32).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.rules.rule import Rule, Subject, advice


def check(subject: Subject) -> Iterator[Diagnostic]:
    link = subject.facts.devices.node[0].link
    if subject.splits.mesh.get("tensor", 1) > 1 and link.startswith("pcie"):
        message = f"tensor parallel exchanges data at every block, and these devices are linked by {link}"
        hint = "compare with `device_map`, or with `context` if the weights fit"
        yield advice("DC603", message, hint, subject.given("parallel", "tensor") or ("parallel",))


RULE = Rule("DC603", check)
