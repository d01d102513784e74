"""The host has too little memory to load the job.

What it checks: `devices.host_memory` against what the ranks of a node load at once, and what of it stays offloaded. An
error where what they copy is more, a warning where it is more together with the pages of files that stay mapped.

Why it matters: the system kills a rank while it loads, with one bare word and no traceback; or it reads the same files
again and again.

Example: Wan 2.1 14B with `host_memory: 32GiB`: 37.49 GiB

Use instead: a host with more memory, fewer ranks a node, or `tensor`, which reads each rank's slices only

Source: our own, measured on diffusers 0.42.1 (`memory/host.py`); Wan-Video/Wan2.1#111, vllm-project/vllm#1395.
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.core.units import format_bytes
from dcompile.memory.host import host_memory_bytes, host_need
from dcompile.rules.rule import Rule, Subject, error, warning


def check(subject: Subject) -> Iterator[Diagnostic]:
    has = host_memory_bytes(subject.recipe)
    if has is None:
        return
    need = host_need(subject.recipe, subject.facts, subject.splits, subject.owned.placement)
    own = need.ranks * need.own_bytes
    if own + need.shared_bytes <= has:
        return
    of_ranks = f"{need.ranks} ranks, {format_bytes(need.own_bytes)} each" if need.ranks > 1 else ""
    pages = f"{format_bytes(need.shared_bytes)} of it pages of mapped files" if own <= has else ""
    details = ", ".join(part for part in (of_ranks, pages) if part)
    needs = f"{format_bytes(own if own > has else own + need.shared_bytes)} of host memory"
    needs += f" ({details})" if details else ""
    fits = has // need.own_bytes if need.own_bytes else need.ranks
    hint = f"{fits} rank(s) fit on this host" if 1 <= fits < need.ranks else "use a host with more memory"
    name = subject.facts.model.denoisers[0]
    if subject.facts.model.components[name].tensor_plan and subject.split(name).tensor == 1:
        hint += f"; `tensor` reads only a rank's own slices of `{name}`"
    takes = "loading and offloading take" if subject.splits.offloaded else "loading takes"
    message = f"{takes} {needs}, and the host has {format_bytes(has)}"
    yield (error if own > has else warning)("DC502", message, hint, ("devices", "host_memory"))


RULE = Rule("DC502", check)
