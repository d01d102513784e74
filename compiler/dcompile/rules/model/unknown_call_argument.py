"""An argument under `run.args`, a key of `run`, or a column of the prompt file, is not one of the pipeline's call.

What it checks: names in `run.args` against the signature of the pipeline's `__call__`, and what Helios is told of the
history of its chunks; `guidance`, `true_cfg`, `negative_prompt` and `frames` against what the pipeline does with them;
`guidance_scale_2` against `boundary_ratio`; `clip_skip` of Stable Diffusion, which no longer fits the text encoders of
transformers.

Why it matters: diffusers raises only after every weight was loaded. `true_cfg` of a pipeline with one branch would be
taken for the guidance that the model was distilled with.

Example: `run: {args: {max_seq_length: 8}}`

Use instead: `run: {args: {max_sequence_length: 8}}`

Source: diffusers 0.42.1, the pipeline's `__call__`; `pipeline_wan.py:323`, `pipeline_helios.py:708` and `:823`
(row CALL-05).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dcompile.core.diagnostics import Diagnostic, Move, Remove
from dcompile.core.meant import meant, nearest
from dcompile.facts.guidance import Guidance, guidance_of
from dcompile.facts.pipelines import describe_pipeline
from dcompile.layout.clips import chunk_of, is_count
from dcompile.layout.settings import CALL_NAMES
from dcompile.rules.rule import Rule, Subject, error

OWN = frozenset(
    (
        *("prompt", "generator", "height", "width", "num_frames", "num_inference_steps", "negative_prompt"),
        *("num_images_per_prompt", "num_videos_per_prompt", "output_type", "return_dict"),
        *("callback_on_step_end", "callback_on_step_end_tensor_inputs"),
    )
)
"""Arguments that the recipe's own keys or the runtime set."""
KEYS = {
    "height": "height",
    "width": "width",
    "num_frames": "frames",
    "num_inference_steps": "steps",
    "negative_prompt": "negative_prompt",
    "num_images_per_prompt": "images_per_prompt",
    "num_videos_per_prompt": "images_per_prompt",
}
"""The keys of `run` that hold the same as one of them."""
LEFT_OUT = "leave it out"
OTHERWISE = {"prompt": "use the key `prompts` of `run`", "generator": "use the key `seed` or `seeds` of `run`"}
"""What to write for those that a key of `run` gives in another form."""


def check(subject: Subject) -> Iterator[Diagnostic]:
    known, pipeline = tuple(subject.facts.model.call_args), subject.facts.model.pipeline
    for name in subject.recipe.run.args:
        path = ("run", "args", name)
        if name in OWN:
            own = KEYS.get(name)
            hint = f"use the key `{own}` of `run`" if own else OTHERWISE.get(name, LEFT_OUT)
            move = Move(("run", own)) if own and own not in subject.recipe.run.model_fields_set else None
            yield error("DC306", f"`{name}` is set by the recipe itself", hint, path, is_key=True, fix=move)
        elif name not in known:
            own_names = [other for other in known if other not in OWN]
            near, only = nearest(name, own_names), meant(name, own_names)
            hint = f"did you mean `{near}`?" if near else f"it takes {_listed(own_names, pipeline)}"
            fix = None if only in subject.recipe.run.args else only
            yield error("DC306", f"{pipeline} takes no argument `{name}`", hint, path, is_key=True, fix=fix)
        elif subject.recipe.run.args[name] is not None and name in describe_pipeline(pipeline).get("failing", ()):
            message = f"{pipeline} fails with `{name}`: it looks for a part that its text encoder no longer has"
            yield error("DC306", message, LEFT_OUT, path, is_key=True, fix=Remove())
        elif _needs_two_experts(subject, name):
            message = f"`{name}` is for a pipeline with two denoisers"
            yield error("DC306", message, LEFT_OUT, path, is_key=True, fix=Remove())
        elif chunk_of(subject.facts.model, {}) is not None and (fault := _history_fault(subject, name)) is not None:
            yield error("DC306", fault, LEFT_OUT, path, is_key=True, fix=Remove())
    for name in ("height", "width"):
        if known and name not in known and getattr(subject.recipe.run, name) is not None:
            message = f"{pipeline} takes no `{name}`: what it makes is as large as the input picture"
            hint = "leave it out, and give a picture of that size"
            yield error("DC306", message, hint, ("run", name), is_key=True, fix=Remove())
    # The rest needs to know more of the pipeline; a recipe that asks for none of it does not pay for that.
    run, first = subject.recipe.run, {name: row.index for row in reversed(subject.facts.rows) for name in row.args}
    has_negative = any(row.negative_prompt is not None for row in subject.facts.rows)
    if not (first or has_negative or run.guidance is not None or run.true_cfg is not None or run.frames is not None):
        return
    guidance = guidance_of(subject.facts.model)
    yield from _columns(subject, first, guidance)
    yield from _keys(subject, known, guidance)
    if has_negative and not guidance.takes_negative:
        where = ("run", "negative_prompt") if run.negative_prompt is not None else ("run", "prompts")
        idle = Remove() if where[-1] == "negative_prompt" else None
        yield error("DC306", f"{pipeline} takes no `negative_prompt`", "leave it out", where, fix=idle)


def _history_fault(subject: Subject, name: str) -> str | None:
    """What is wrong with an argument about the history that a chunk sees; None where nothing is."""
    value, pipeline = subject.recipe.run.args[name], subject.facts.model.pipeline
    if name == "keep_first_frame" and value is False:
        return f"{pipeline} fails without the first frame: it keeps one frame of history less than it then asks for"
    is_list = isinstance(value, list) and len(value) == 3 and all(is_count(size) for size in value)
    if name == "history_sizes" and not is_list:
        return f"{pipeline} takes three numbers of frames as `{name}`, each above 0"
    return None


def _keys(subject: Subject, known: tuple[str, ...], guidance: Guidance) -> Iterator[Diagnostic]:
    """The keys of `run` that not every pipeline has."""
    run, pipeline = subject.recipe.run, subject.facts.model.pipeline
    if run.guidance is not None and run.true_cfg is not None and guidance.branches == "guidance_scale":
        message = f"`guidance` and `true_cfg` are both the `guidance_scale` of {pipeline}"
        yield error("DC306", message, "keep one of the two", ("run", "guidance"))
    for name, key in (("guidance_scale", "guidance"), ("num_frames", "frames")):
        if getattr(run, key) is not None and name not in known:
            message = f"{pipeline} has no `{name}`, so `{key}` has no effect"
            yield error("DC306", message, "leave it out", ("run", key), fix=Remove())
    if run.true_cfg is not None and guidance.branches is None:
        is_distilled = "guidance_scale" in known
        hint = "write `guidance`, which the model was distilled with" if is_distilled else "leave it out"
        message = f"{pipeline} has no second branch that `true_cfg` could scale"
        yield error("DC306", message, hint, ("run", "true_cfg"), fix=None if is_distilled else Remove())


def _columns(subject: Subject, first: dict[str, int], guidance: Guidance) -> Iterator[Diagnostic]:
    """Columns of the prompt file: keys of `run` that the pipeline has, or arguments of its call."""
    known, pipeline = tuple(subject.facts.model.call_args), subject.facts.model.pipeline
    for name, index in sorted(first.items()):
        path, where = ("run", "prompts"), f"of picture {index}"
        if name in CALL_NAMES:
            has = guidance.branches is not None if name == "true_cfg" else CALL_NAMES[name] in known
            if not has:
                message = f"{pipeline} has no `{CALL_NAMES[name]}`: column `{name}` is idle"
                yield error("DC306", message, "leave it out", path)
        elif name in OWN:
            yield error("DC306", f"column `{name}` {where} is set by the recipe itself", "leave it out", path)
        elif name not in known:
            # Not what the recipe or the runtime sets, and the recipe's word where there are two for one thing.
            columns = {key for key, own in CALL_NAMES.items() if own in known}
            columns |= {"seed"} | (set(known) - OWN - set(CALL_NAMES.values())) | ({"negative_prompt"} & set(known))
            near = nearest(name, tuple(columns))
            hint = f"did you mean `{near}`?" if near else f"a column can be {_listed(columns, pipeline)}"
            if subject.recipe.run.id_column is None and not near:
                hint = f"write `id_column: {name}` if it names the rows; {hint}"
            yield error("DC306", f"{pipeline} takes no `{name}` (a column {where})", hint, path)
        elif _needs_two_experts(subject, name):
            message = f"column `{name}` {where} is for a pipeline with two denoisers"
            yield error("DC306", message, "use `true_cfg`", path)


def _listed(names: Iterable[str], pipeline: str) -> str:
    """Those of the names that a recipe or a file can hold a value for."""
    return ", ".join(sorted(set(names) - set(describe_pipeline(pipeline)["no_plain_value"])))


def _needs_two_experts(subject: Subject, name: str) -> bool:
    """Whether an argument scales the second of two denoisers, of which this pipeline has one (pipeline_wan.py:323)."""
    return name == "guidance_scale_2" and subject.facts.model.pipeline_config.get("boundary_ratio") is None


RULE = Rule("DC306", check)
