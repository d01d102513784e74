"""The catalogue of rules, in the order in which they run. A rule that is not here does not exist."""

from __future__ import annotations

from dcompile.core.diagnostics import Diagnostic
from dcompile.rules.advice import more_replicas_than_pictures, one_expert_split, tensor_over_slow_link
from dcompile.rules.memory import does_not_fit
from dcompile.rules.model import (
    output_name,
    requires_unmet,
    size_not_multiple,
    text_too_long,
    unknown_call_argument,
    unknown_component,
)
from dcompile.rules.parallel import (
    adapter_under_tensor,
    attention_backend,
    device_map_with_split,
    heads_not_divisible,
    idle_devices,
    more_devices_than_there_are,
    no_context_plan,
    no_tensor_plan,
    not_yet,
    stochastic_batch,
    tensor_with_context,
    text_not_divisible,
    tokens_not_divisible,
    uneven_unified,
    weight_not_divisible,
)
from dcompile.rules.rule import Rule, Subject

RULES: tuple[Rule, ...] = (
    output_name.RULE,
    requires_unmet.RULE,
    unknown_component.RULE,
    unknown_call_argument.RULE,
    size_not_multiple.RULE,
    text_too_long.RULE,
    not_yet.RULE,
    heads_not_divisible.RULE,
    tokens_not_divisible.RULE,
    text_not_divisible.RULE,
    tensor_with_context.RULE,
    no_tensor_plan.RULE,
    no_context_plan.RULE,
    more_devices_than_there_are.RULE,
    idle_devices.RULE,
    device_map_with_split.RULE,
    attention_backend.RULE,
    uneven_unified.RULE,
    weight_not_divisible.RULE,
    adapter_under_tensor.RULE,
    stochastic_batch.RULE,
    more_replicas_than_pictures.RULE,
    one_expert_split.RULE,
    tensor_over_slow_link.RULE,
)

FIT_RULES: tuple[Rule, ...] = (does_not_fit.RULE,)
"""Rules that need a layout, and so run only on a recipe that the others accept."""

ROW_RULES: tuple[Rule, ...] = (
    output_name.RULE,
    size_not_multiple.RULE,
    text_too_long.RULE,
    tokens_not_divisible.RULE,
    text_not_divisible.RULE,
)
"""Rules that are asked again for the rows of a prompt file that have a size or a text length of their own."""


def run_rules(rules: tuple[Rule, ...], subject: Subject) -> tuple[Diagnostic, ...]:
    """Every finding of every rule, in the catalogue's order."""
    return tuple(finding for rule in rules for finding in rule.check(subject))
