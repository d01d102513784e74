"""An argument of the call takes tensors or pictures, which a recipe cannot hold.

What it checks: names in `run.args` and columns of the prompt file against the types of the pipeline's call.

Why it matters: the pipeline raises at the first call, after every weight was loaded; an IP-Adapter's picture reshapes
by the heads of the whole layer, which `tensor` has split.

Example: `run: {args: {ip_adapter_image: fox.png}}`

Use instead: nothing; noise follows from `seed`, embeddings from `prompts`

Source: diffusers 0.42.1, the annotations of each pipeline's `__call__`; `transformer_flux.py:202` (row TPC-25).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic, Path
from dcompile.facts.pipelines import describe_pipeline
from dcompile.rules.rule import Rule, Subject, error

SET_BY_THE_RUN = ("generator", "callback_on_step_end")


def check(subject: Subject) -> Iterator[Diagnostic]:
    named: dict[str, Path] = {name: ("run", "prompts") for row in subject.facts.rows for name in row.args}
    named |= {name: ("run", "args", name) for name, value in subject.recipe.run.args.items() if value is not None}
    # Such an argument has no default; most recipes name none without one, and do not pay for the pipelines' file.
    named = {name: path for name, path in named.items() if subject.facts.model.call_args.get(name, 0) is None}
    if not named:
        return
    opaque = describe_pipeline(subject.facts.model.pipeline)["no_plain_value"]
    for name, path in named.items():
        if name in opaque and name not in SET_BY_THE_RUN:
            message = f"`{name}` of {subject.facts.model.pipeline} takes tensors or pictures, which no recipe can hold"
            yield error("DC447", message, _instead(name), path)


def _instead(name: str) -> str:
    if "latents" in name:
        return "leave it out: the noise follows from `seed`"
    if "embed" in name or "mask" in name:
        return "leave it out: the text follows from `prompts`"
    return "use `images` of `run`" if name == "image" else "leave it out: recipes cannot give it yet"


RULE = Rule("DC447", check)
