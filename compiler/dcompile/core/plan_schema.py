"""The JSON Schema of `plan.json`, which the compiler writes and the runtime reads: what the two agree on.

`schemas/plan.schema.json` is generated from it.
"""

from __future__ import annotations

from typing import Any

BYTES: dict[str, Any] = {"type": "integer", "minimum": 0}
MAYBE_BYTES: dict[str, Any] = {"type": ["integer", "null"]}
TEXT: dict[str, Any] = {"type": "string"}
COUNT: dict[str, Any] = {"type": "integer", "minimum": 1}
MAYBE_TEXT: dict[str, Any] = {"type": ["string", "null"]}
FAULT_WIDTH = 200
"""Characters of a fault's text: jsonschema quotes the whole value, which may be the whole plan."""


def closed(properties: dict[str, Any], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    """An object with exactly these keys."""
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def by_name(value: dict[str, Any]) -> dict[str, Any]:
    """An object whose keys are a user's or a model's names."""
    return {"type": "object", "additionalProperties": value}


def array(items: dict[str, Any]) -> dict[str, Any]:
    """A list."""
    return {"type": "array", "items": items}


def plan_fault(document: Any) -> str | None:
    """The first place where a decoded `plan.json` is not by the schema, as a sentence; None where it is.

    The compiler asks before it writes one, the runtime before it starts a rank.
    """
    import jsonschema  # imported here: `check` makes plans too and has to be instant

    fault = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(plan_schema()).iter_errors(document))
    if fault is None:
        return None
    place = ".".join(str(part) for part in fault.absolute_path)
    text = fault.message if len(fault.message) <= FAULT_WIDTH else f"{fault.message[:FAULT_WIDTH]} ..."
    return f"{place}: {text}" if place else text


def plan_schema() -> dict[str, Any]:
    """The schema; draft 2020-12."""
    axes = dict.fromkeys(("data", "cfg", "ring", "ulysses", "tensor"), COUNT)
    component = closed(
        {
            "class": TEXT,
            "layout": {
                "type": "object",
                "required": ["kind"],
                "properties": {"kind": {"enum": ["replicated", "device", "blocks", "tensor", "context"]}},
            },
            "parameters": BYTES,
            "weight_bytes": BYTES,
            "because": TEXT,
        }
    )
    phase = closed(
        {
            "phase": {"enum": ["encode", "denoise", "decode"]},
            "weight_bytes": BYTES,
            "activation_bytes": BYTES,
            "components": array(TEXT),
            "called": MAYBE_TEXT,
        }
    )
    device = closed(
        {
            "rank": BYTES,
            "node": BYTES,
            "device": BYTES,
            "memory_bytes": MAYBE_BYTES,
            "weight_bytes": BYTES,
            "activation_bytes": BYTES,
            "reserve_bytes": BYTES,
            "free_bytes": MAYBE_BYTES,
            "components": by_name(closed({"weight_bytes": BYTES})),
            "phases": array(phase),
        }
    )
    decision = closed({"what": TEXT, "chosen": TEXT, "because": TEXT, "alternatives": array(TEXT)})
    seconds: dict[str, Any] = {"type": "number", "minimum": 0}
    estimate = closed(
        {
            "is_estimate": {"const": True},
            "step_seconds": seconds,
            "communication_seconds": seconds,
            "encode_seconds": seconds,
            "decode_seconds": seconds,
            "offload_seconds": seconds,
            "load_seconds": seconds,
            "total_seconds": seconds,
        },
        optional=("offload_seconds",),
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "dcompile plan",
        **closed(
            {
                "format_version": {"const": 1},
                "tool_version": TEXT,
                "name": TEXT,
                "recipe_digest": {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"},
                "requires": by_name(TEXT),
                "strategy": {"enum": ["single", "data", "device_map", "context", "tensor", "hybrid"]},
                "mesh": closed(axes, optional=tuple(axes)),
                "components": by_name(component),
                "devices": array(device),
                "traffic": by_name(closed({"calls": BYTES, "bytes": BYTES})),
                "estimate": estimate,
                "decisions": array(decision),
                "program": program_schema(),
            },
            optional=("estimate",),
        ),
    }


def program_schema() -> dict[str, Any]:
    """The part that the runtime reads."""
    nullable = {"type": ["object", "null"]}
    tensor = closed(
        {
            "degree": COUNT,
            "plan": {"enum": ["builtin", "ours"]},
            "styles": by_name(closed({"style": TEXT, "blocks": array(COUNT)})),
            "parameters": by_name(closed({"dim": BYTES, "parts": array(COUNT)})),
        }
    )
    context = closed({"ring": COUNT, "ulysses": COUNT, "uneven": {"type": "boolean"}})
    component = {
        "type": "object",
        "required": ["class", "library", "omit"],
        "properties": {
            "class": TEXT,
            "library": TEXT,
            "dtype": TEXT,
            "id": MAYBE_TEXT,
            "path": MAYBE_TEXT,
            "omit": {"type": "boolean"},
            "attention": MAYBE_TEXT,
            "quantize": {"anyOf": [{"type": "null"}, closed({"method": TEXT, "type": TEXT})]},
            "tiling": {"type": "boolean"},
            "device": BYTES,
            "blocks": {"anyOf": [{"type": "null"}, by_name(BYTES)]},
            "offload": {"enum": [None, "model"]},
            "tensor": {"anyOf": [{"type": "null"}, tensor]},
            "context": {"anyOf": [{"type": "null"}, context]},
        },
        "additionalProperties": False,
    }
    row = closed(
        {
            "index": BYTES,
            "id": TEXT,
            "prompt": TEXT,
            "negative_prompt": MAYBE_TEXT,
            "seed": BYTES,
            "args": {"type": "object"},
            "images": array(closed({"path": TEXT, "height": COUNT, "width": COUNT})),
        },
        optional=("id", "images"),
    )
    pipeline = closed(
        {
            "class": TEXT,
            "id": MAYBE_TEXT,
            "path": MAYBE_TEXT,
            "revision": MAYBE_TEXT,
            "variant": MAYBE_TEXT,
            "dtype": TEXT,
            "trust_remote_code": {"type": "boolean"},
            "scheduler": nullable,
            "adapters": array({"type": "object"}),
        }
    )
    return closed(
        {
            "device_kind": {"enum": ["cpu", "cuda", "xpu"]},
            "ranks": COUNT,
            "nodes": COUNT,
            "ranks_per_node": COUNT,
            "devices_per_rank": COUNT,
            "device_ids": {"anyOf": [{"type": "null"}, array(BYTES)]},
            "device_names": {"anyOf": [{"type": "null"}, array(array(TEXT))]},
            "mesh_axes": array({"type": "array", "minItems": 2, "maxItems": 2}),
            "timeout_seconds": COUNT,
            "env": by_name(TEXT),
            "pipeline": pipeline,
            "denoisers": array(TEXT),
            "components": by_name(component),
            "run": closed(
                {
                    "rows": array(row),
                    "batch": COUNT,
                    "images": {"enum": ["shared", "each"]},
                    "shares": array(array(BYTES)),
                    "call": {"type": "object"},
                },
                optional=("images",),
            ),
            "output": closed({"dir": TEXT, "name": TEXT, "format": TEXT, "fps": {"type": ["number", "null"]}}),
        }
    )
