"""Tensor parallel over a slow link.

What it checks: whether the ranks of `tensor` are on several nodes; and whether a step of `tensor` over PCIe, or over a
link given by its bandwidth, is estimated to take as long as on one device, or longer. Where the estimate does not know
the devices, any `tensor` over PCIe.

Why it matters: two all-reduces a block can cost more than the split saves.

Example: `gpu: l40s` with `tensor: 4`

Use instead: `device_map`, or `context` where the weights fit

Source: `hardware/links.json`: all-reduce over four L40S without peer access reaches 5 GB/s, over four H100 300 GB/s.
Two and four L20 with peer access gained by `tensor` (vipshop/cache-dit; rows TPC-32, TPC-35, STR-03).
"""

from __future__ import annotations

from collections.abc import Iterator

from dcompile.core.diagnostics import Diagnostic
from dcompile.core.units import format_seconds
from dcompile.estimate.step import StepSeconds, slowest_link, step_seconds
from dcompile.layout.degrees import tensor_degrees
from dcompile.layout.nodes import used_devices
from dcompile.layout.placement import Needs, place
from dcompile.layout.splits import Split, Splits, split_components
from dcompile.recipe.model import Parallel, Recipe
from dcompile.rules.rule import Rule, Subject, advice, warning


def check(subject: Subject) -> Iterator[Diagnostic]:
    denoiser = subject.splits.components.get(subject.facts.model.denoisers[0], Split())
    if denoiser.tensor == 1:
        return
    if _is_on_several_nodes(subject, denoiser):
        yield _over_nodes(subject, denoiser)
        return
    link = slowest_link(used_devices(subject.facts.devices, subject.splits))
    is_slow, is_bandwidth = link.startswith("pcie"), link[:1].isdigit()
    if not (is_slow or is_bandwidth) or subject.is_candidate:
        return  # plans that are compared go by the estimate itself, and nobody reads advice about them
    split = _step(subject, subject.recipe, subject.splits)
    alone = subject.recipe.model_copy(update={"parallel": Parallel()})
    whole = _step(subject, alone, split_components(alone, subject.facts.model))
    if split is None or whole is None:
        if not is_slow:
            return  # what a bandwidth means for a device that nobody knows
        message = f"tensor parallel exchanges data at every block, and these devices are linked by {link}"
    elif split.total < whole.total:
        return
    else:
        exchange = f"{format_seconds(split.communication)} of it exchange over {link}"
        message = f"by estimate a step takes {format_seconds(split.total)}, {exchange}; "
        message += f"on one device it would take {format_seconds(whole.total)}"
    hint = "compare with `device_map`, or with `context` if the weights fit"
    yield advice("DC603", message, hint, subject.given("parallel", "tensor") or ("parallel",))


def _is_on_several_nodes(subject: Subject, split: Split) -> bool:
    """The axis is the mesh's last, so its ranks are neighbours."""
    devices = subject.facts.devices
    return devices.nodes > 1 and devices.per_node is not None and split.tensor > devices.per_node


def _over_nodes(subject: Subject, split: Split) -> Diagnostic:
    devices, model = subject.facts.devices, subject.facts.model
    per_node = devices.per_node or 1
    link = f"`{devices.node_link}`" if devices.node_link else "the link between nodes"
    message = f"tensor {split.tensor} is more than the {per_node} devices of a node: each block exchanges over {link}"
    within = [degree for degree in tensor_degrees(model.components[model.denoisers[0]]) if degree <= per_node]
    hint = f"use `tensor: {max(within)}` and `data` over the nodes, if that fits" if max(within, default=1) > 1 else ""
    return warning("DC603", message, hint or "use `data` over the nodes, if that fits", split.where)


def _step(subject: Subject, recipe: Recipe, splits: Splits) -> StepSeconds | None:
    """Of a plan with one device a rank, for which no peaks have to be known."""
    return step_seconds(recipe, subject.facts, splits, place(recipe, subject.facts, splits, Needs()), subject.settings)


RULE = Rule("DC603", check)
