"""Tiles are asked of a component that has none.

What it checks: `tiling: true` on a component that is no autoencoder, or one whose class does not decode in tiles.

Why it matters: the component has no `enable_tiling`, or one that raises, after every weight was loaded.

Example: `components: {transformer: {tiling: true}}`

Use instead: `components: {vae: {tiling: true}}`

Source: diffusers 0.42.1, `models/autoencoders/vae.py` (`AutoencoderMixin.enable_tiling`).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.rules.rule import Rule, Subject, error

WITHOUT = ("AsymmetricAutoencoderKL", "AutoencoderKLTemporalDecoder", "AutoencoderRAE", "VQModel")
"""Autoencoders of pictures and videos that never set `use_tiling`."""


def check(subject: Subject) -> Iterator[Diagnostic]:
    for name, component in subject.recipe.components.items():
        facts = subject.facts.model.components.get(name)
        if component is None or not component.tiling or facts is None:
            continue
        if not facts.class_name.startswith("Autoencoder") or facts.class_name in WITHOUT:
            message = f"`{name}` ({facts.class_name}) does not work in tiles"
            others = [
                other for other, part in subject.facts.model.components.items() if part.class_name.startswith("Auto")
            ]
            hint = f"set it for `{others[0]}`" if others and others[0] != name else "leave it out"
            yield error("DC463", message, hint, ("components", name, "tiling"))


RULE = Rule("DC463", check)
