"""The version of torch that the recipe asks for takes more memory to decode.

What it checks: `requires.torch` that allows 2.9 and neither 2.8 nor 2.10, with the autoencoder of Wan or Qwen-Image
that is not tiled.

Why it matters: their three-dimensional convolutions took more memory in 2.9 than before and after: a picture of
2048x2048 that fits 80 GB with 2.8 does not with 2.9.

Example: `requires: {torch: "==2.9.1"}` with Qwen-Image

Use instead: `requires: {torch: ">=2.10"}`, or `components: {vae: {tiling: true}}`

Source: huggingface/diffusers#12900, Nerogar/OneTrainer#1371, vllm-project/vllm-omni#407.
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.core.versions import is_specifier, satisfies
from dcompile.rules.rule import Rule, Subject, warning

CLASSES = ("AutoencoderKLQwenImage", "AutoencoderKLWan")


def check(subject: Subject) -> Iterator[Diagnostic]:
    asked, vae = subject.recipe.requires.get("torch"), subject.facts.model.components.get("vae")
    if asked is None or vae is None or vae.class_name not in CLASSES:
        return
    own = subject.recipe.components.get("vae")
    if own is not None and own.tiling:
        return
    if not is_specifier(asked) or satisfies("2.8", asked) or satisfies("2.10", asked):
        return
    if any(satisfies(version, asked) for version in ("2.9.0", "2.9.1")):
        message = f"torch 2.9 takes more memory than 2.8 and 2.10 to decode with {vae.class_name}"
        hint = 'write `">=2.10"`, or set `components: {vae: {tiling: true}}`'
        yield warning("DC504", message, hint, ("requires", "torch"))


RULE = Rule("DC504", check)
