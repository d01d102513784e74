"""A component is to lie on several devices and cannot be cut between its blocks.

What it checks: components whose place is a list of devices: that they have blocks which do not share a cache; and of a
diffusers class that it says which of its parts stay whole (`_no_split_modules`), or, as of every autoencoder, that a
cut one was compared with a whole one (`models/verified.json`). The cuts are our own, so LTX and the autoencoders of
FLUX, Qwen-Image, SD3 and SDXL can be cut though diffusers has no device map for some of them. Each device of a cut
component is counted with the component's whole peak.

Why it matters: the blocks of Wan's autoencoder write into one list, and what is moved between devices gets a list of
its own: wrong videos, or a failure after every weight was loaded. Nobody knows of a class that was never tried.

Example: `parallel: {device_map: {vae: [0, 1]}}` with Wan

Use instead: `parallel: {device_map: {transformer: [0, 1], vae: 1}}`

Source: diffusers 0.42.1, `models/modeling_utils.py:2052` (row MDM-01), `autoencoder_kl_wan.py` (`feat_cache`), and the
runs of `tests/oracle`; huggingface/diffusers#9450, #9648.
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.layout.placement import cannot_be_cut
from dcompile.rules.rule import Rule, Subject, error


def check(subject: Subject) -> Iterator[Diagnostic]:
    model = subject.facts.model
    can = [name for name in subject.splits.components if cannot_be_cut(model.components[name]) is None]
    for name, split in subject.splits.components.items():
        why = cannot_be_cut(model.components[name])
        if len(split.devices) < 2 or why is None:
            continue
        message = f"`{name}` ({model.components[name].class_name}) cannot be cut between blocks: {why}"
        alternatives = f"; what can be cut is {', '.join(f'`{other}`' for other in can)}" if can else ""
        yield error("DC461", message, f"put it on one device{alternatives}", split.where)


RULE = Rule("DC461", check)
