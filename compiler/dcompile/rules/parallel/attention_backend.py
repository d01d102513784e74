"""No attention backend can do what is asked, or the one that is named cannot.

What it checks: `components.<name>.attention` against the devices and what their kernels are built for, the dtype, the
mask that the pipeline passes, the width of the heads and the mode of `context`; and, where none is named, that there is
one at all.

Why it matters: diffusers looks at the first attention layer only. Some backends ignore the split and give wrong
pictures in silence; the others fail at the first step, after every weight was loaded.

Example: `components: {transformer: {attention: xformers}}` with `context`

Use instead: `attention: native` under Ulysses

Source: diffusers 0.42.1, the registry in `models/attention_dispatch.py` (rows CPB-01, CPB-02, CPB-15, CPB-17, CPB-18,
CPB-19).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dcompile.core.diagnostics import Diagnostic
from dcompile.core.meant import meant, nearest
from dcompile.layout.attention import Use, attention_backends, attention_use, has_choice, legal_backends, refusal
from dcompile.rules.rule import Rule, Subject, error

OTHER_NAMES = {
    "flash_attn": "flash",
    "flash_attention": "flash",
    "flash_attention_2": "flash",
    "flash_attn_3": "_flash_3",
    "flash_attention_3": "_flash_3",
    "sage_attn": "sage",
    "sage_attention": "sage",
    "sageattention": "sage",
    "sdpa": "native",
}
"""What transformers and the packages themselves call them."""


def check(subject: Subject) -> Iterator[Diagnostic]:
    for name, split in subject.splits.components.items():
        component = subject.recipe.components.get(name)
        backend = component.attention if component is not None else None
        facts = subject.facts.model.components[name]
        if (split.context > 1 and not facts.context_plan) or not has_choice(facts):
            continue  # DC406 or DC420 is the cause
        use = attention_use(subject.recipe, subject.facts, subject.splits, name, split)
        legal = legal_backends(use)
        path = ("components", name, "attention")
        if not legal and name in subject.facts.model.denoisers:
            yield error("DC410", _nothing_serves(use), _way_out(use), path if backend else split.where)
        elif backend is None:
            continue
        elif backend not in attention_backends():
            only = OTHER_NAMES.get(backend.lower()) or meant(backend, attention_backends())
            near = only or nearest(backend, attention_backends())
            hint = f"did you mean `{near}`?" if near else f"use {', '.join(legal)}"
            fix = only if only in legal else None
            yield error("DC410", f"`{backend}` is not an attention backend", hint, path, fix=fix)
        elif has_choice(subject.facts.model.components[name]):  # otherwise it has no effect: DC420
            why = refusal(backend, use)
            if why is not None:
                yield error("DC410", f"attention backend `{backend}` {why}", f"use {', '.join(legal)}", path)


def _nothing_serves(use: Use) -> str:
    mode = "`ring`" if use.split.ring > 1 else "`context`" if use.split.context > 1 else "this component"
    return f"no attention backend serves {mode} in {use.dtype} on {use.kind} devices"


def _way_out(use: Use) -> str:
    """The other dtype, or Ulysses alone, whichever has a backend."""
    ways = [f"`dtype: {dtype}`" for dtype in ("bfloat16",) if legal_backends(_with(use, dtype=dtype))]
    if use.split.ring > 1:
        ways.append(f"`ulysses: {use.split.context}` without `ring`")
    return f"use {' or '.join(ways)}" if ways else "leave `context` out"


def _with(use: Use, *, dtype: str) -> Use:
    return replace(use, dtype=dtype)


RULE = Rule("DC410", check)
