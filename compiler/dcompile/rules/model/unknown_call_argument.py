"""An argument under `run.args`, or a column of the prompt file, is not one of the pipeline's call.

What it checks: names in `run.args` against the signature of the pipeline's `__call__`.

Why it matters: diffusers raises only after every weight was loaded.

Example: `run: {args: {max_seq_length: 8}}`

Use instead: `run: {args: {max_sequence_length: 8}}`

Source: diffusers 0.42.1, the pipeline's `__call__`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.layout.settings import CALL_NAMES
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    known = tuple(subject.facts.model.call_args)
    own = {"prompt", "generator", "height", "width", "num_frames", "num_inference_steps", "negative_prompt"}
    own |= {"num_images_per_prompt", "num_videos_per_prompt", "output_type", "return_dict"}
    own |= {"callback_on_step_end", "callback_on_step_end_tensor_inputs"}
    for name in subject.recipe.run.args:
        path = ("run", "args", name)
        if name in own:
            yield error("DC306", f"`{name}` is set by the recipe itself", "use the key of `run` for it", path)
        elif name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean `{close[0]}`?" if close else f"it takes {', '.join(sorted(known))}"
            yield error("DC306", f"{subject.facts.model.pipeline} takes no argument `{name}`", hint, path)
    yield from _columns(subject, known, own)
    run = subject.recipe.run
    if run.guidance is not None and run.true_cfg is not None and "true_cfg_scale" not in known:
        message = f"`guidance` and `true_cfg` are both the `guidance_scale` of {subject.facts.model.pipeline}"
        yield error("DC306", message, "keep one of the two", ("run", "guidance"))
    for name, key in (("guidance_scale", "guidance"), ("true_cfg_scale", "true_cfg"), ("num_frames", "frames")):
        if getattr(subject.recipe.run, key) is not None and name not in known and not _is_classic(subject, key):
            message = f"{subject.facts.model.pipeline} has no `{name}`, so `{key}` has no effect"
            yield error("DC306", message, "leave it out", ("run", key))


def _columns(subject: Subject, known: tuple[str, ...], own: set[str]) -> Iterator[Diagnostic]:
    """Columns of the prompt file: keys of `run` that the pipeline has, or arguments of its call."""
    first = {name: row.index for row in reversed(subject.facts.rows) for name in row.args}
    for name, index in sorted(first.items()):
        path, where = ("run", "prompts"), f"of picture {index}"
        if name in CALL_NAMES:
            if CALL_NAMES[name] not in known and not (name == "true_cfg" and _is_classic(subject, name)):
                message = f"{subject.facts.model.pipeline} has no `{CALL_NAMES[name]}`: column `{name}` is idle"
                yield error("DC306", message, "leave it out", path)
        elif name in own:
            yield error("DC306", f"column `{name}` {where} is set by the recipe itself", "leave it out", path)
        elif name not in known:
            close = difflib.get_close_matches(name, (*CALL_NAMES, *known), n=1)
            hint = f"did you mean `{close[0]}`?" if close else f"it takes {', '.join(sorted({*CALL_NAMES, *known}))}"
            yield error("DC306", f"{subject.facts.model.pipeline} takes no `{name}` (a column {where})", hint, path)


def _is_classic(subject: Subject, key: str) -> bool:
    """Whether `true_cfg` lowers to the pipeline's own `guidance_scale` (two branches without distilled guidance)."""
    return key == "true_cfg" and "guidance_scale" in subject.facts.model.call_args


RULE = Rule("DC306", check)
