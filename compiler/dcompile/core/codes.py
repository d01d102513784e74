"""The codes of facts, rules and the CLI, with the name of the fault. `source/faults.py` and `recipe/faults.py` hold
those of the text (DC1xx) and of the shape (DC2xx). A code is never used twice."""

from __future__ import annotations

FACTS: dict[str, str] = {
    "DC301": "unknown-model",
    "DC302": "unknown-device",
    "DC303": "unusable-model-folder",
    "DC304": "unknown-component",
    "DC305": "unusable-prompts",
    "DC306": "unknown-call-argument",
    "DC307": "more-memory-than-the-device-has",
    "DC308": "size-not-multiple",
    "DC309": "text-too-long",
    "DC310": "requires-unmet",
    "DC311": "output-name",
}
PARALLEL: dict[str, str] = {
    "DC400": "not-yet",
    "DC401": "heads-not-divisible",
    "DC402": "tokens-not-divisible",
    "DC403": "text-not-divisible",
    "DC404": "tensor-with-context",
    "DC405": "no-tensor-plan",
    "DC406": "no-context-plan",
    "DC407": "more-devices-than-there-are",
    "DC408": "idle-devices",
    "DC409": "device-map-with-split",
    "DC410": "attention-backend",
    "DC411": "uneven-unified",
    "DC412": "weight-not-divisible",
    "DC413": "adapter-under-tensor",
    "DC414": "stochastic-batch",
}
MEMORY: dict[str, str] = {"DC501": "does-not-fit"}
ADVICE: dict[str, str] = {
    "DC601": "more-replicas-than-pictures",
    "DC602": "one-expert-split",
    "DC603": "tensor-over-slow-link",
}
