"""Writes `models/*.json` from the installed classes on the meta device: `python -m dcompile.facts.generate`.

The published configs come from `facts/published/`; no weights and no network are needed. Besides the probe this is the
only module of the compiler that imports torch, diffusers and transformers.
"""

from __future__ import annotations

import inspect
import json
import logging
from pathlib import Path
from typing import Any

import diffusers
import torch
import transformers
from diffusers.hooks.tensor_parallel import PackedColwiseParallel, PackedRowwiseParallel

from dcompile.facts.grouping import group_parameters
from dcompile.facts.registry import MODELS, read_json

PUBLISHED = Path(__file__).parent / "published"

# Sizes of fused parts by name: products of config keys and numbers. Checked against what the classes' own `__init__`
# records, so a new library version that changes them stops the generator.
_FLUX_SIZES: dict[str, list[Any]] = {
    "inner": ["num_attention_heads", "attention_head_dim"],
    "mlp": ["num_attention_heads", "attention_head_dim", 4],
}
_FLUX2_SIZES: dict[str, list[Any]] = {**_FLUX_SIZES, "mlp": ["num_attention_heads", "attention_head_dim", "mlp_ratio"]}
_PACKED: dict[str, tuple[dict[str, list[Any]], dict[str, list[str]]]] = {
    "FluxTransformer2DModel": (_FLUX_SIZES, {"single_transformer_blocks.*.proj_out": ["inner", "mlp"]}),
    "Flux2Transformer2DModel": (
        _FLUX2_SIZES,
        {
            "single_transformer_blocks.*.attn.to_qkv_mlp_proj": ["inner", "inner", "inner", "mlp", "mlp"],
            "single_transformer_blocks.*.attn.to_out": ["inner", "mlp"],
        },
    ),
}
_TRANSFORMERS_CLASSES = (
    "CLIPTextModel",
    "CLIPTextModelWithProjection",
    "CLIPVisionModelWithProjection",
    "Gemma2Model",
    "LlamaModel",
    "Mistral3ForConditionalGeneration",
    "Qwen2_5_VLForConditionalGeneration",
    "Qwen3ForCausalLM",
    "SiglipVisionModel",
    "T5EncoderModel",
    "UMT5EncoderModel",
)
# Its own plan fails at the first forward in every mode (diffusers #14316 and #14317).
_UNUSABLE_CONTEXT_PLAN = {"LTX2VideoTransformer3DModel"}
_HEAD_KEYS = ("num_attention_heads", "num_heads")

# What a family's pipelines have in common. `size` is a picture's side in latents where the call does not say (None: the
# signature or the denoiser's `sample_size` does), `patch` the latents on a token's side, `frames` the temporal
# compression, `multiple` what height and width must divide by (None: a token's side), `text_limit` the longest text (0:
# no limit).
_PIPELINES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("Flux2", {"family": "flux2", "size": 128, "patch": 2, "frames": 0, "multiple": 1, "text_limit": 512}),
    ("Flux", {"family": "flux", "size": 128, "patch": 2, "frames": 0, "multiple": 1, "text_limit": 512}),
    ("QwenImage", {"family": "qwenimage", "size": 128, "patch": 2, "frames": 0, "multiple": 1, "text_limit": 1024}),
    ("Wan", {"family": "wan", "size": None, "patch": 2, "frames": 4, "multiple": 16, "text_limit": 0}),
    ("LTX2", {"family": "ltx2", "size": None, "patch": 1, "frames": 8, "multiple": 32, "text_limit": 0}),
    ("LTX", {"family": "ltx", "size": None, "patch": 1, "frames": 8, "multiple": 32, "text_limit": 0}),
    ("StableDiffusionXL", {"family": "sdxl", "size": None, "patch": 1, "frames": 0, "multiple": 8, "text_limit": 77}),
    ("StableDiffusion3", {"family": "sd3", "size": None, "patch": 2, "frames": 0, "multiple": None, "text_limit": 512}),
    ("StableDiffusion", {"family": "sd", "size": None, "patch": 1, "frames": 0, "multiple": 8, "text_limit": 77}),
)
_GENERIC = {"family": "other", "size": None, "patch": 1, "frames": 0, "multiple": 1, "text_limit": 0}


def main() -> None:
    """Writes every data file of `models/`."""
    logging.disable(logging.WARNING)
    torch.set_grad_enabled(False)
    write(MODELS / "classes.json", {"diffusers": diffusers.__version__, "classes": describe_classes()})
    pipelines = describe_pipelines()
    write(MODELS / "pipelines.json", {"diffusers": diffusers.__version__, "pipelines": pipelines})
    index = {}
    for path in sorted(PUBLISHED.glob("*.json")):
        published = read_json(path)
        index[published["id"]] = path.name
        write(MODELS / path.name, describe_model(published, pipelines[published["pipeline"]]))
    write(MODELS / "index.json", dict(sorted(index.items())))


def write(path: Path, data: Any) -> None:
    """Writes canonical JSON: UTF-8, LF; lists of plain values stay on one line."""
    path.write_text(render(data) + "\n", encoding="utf-8", newline="\n")


def render(value: Any, indent: str = "") -> str:
    """JSON with one level of indentation a space; anything short enough for a line takes one."""
    flat = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, (dict, list)) or not value or len(flat) < 110:
        return flat
    inner = indent + " "
    if isinstance(value, dict):
        lines = [f"{inner}{json.dumps(key, ensure_ascii=False)}: {render(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    return "[\n" + ",\n".join(inner + render(item, inner) for item in value) + f"\n{indent}]"


def build(class_name: str, library: str, config: dict[str, Any]) -> Any:
    """An instance on the meta device, with tied weights tied."""
    with torch.device("meta"):
        if library == "diffusers":
            return getattr(diffusers, class_name).from_config(config)
        cls = getattr(transformers, class_name)
        return cls(cls.config_class(**config))


def describe_model(published: dict[str, Any], pipeline: dict[str, Any]) -> dict[str, Any]:
    """The content of one model's file."""
    components = {
        name: describe_component(part["class"], part["library"], part["config"], part.get("dtype"))
        for name, part in published["components"].items()
    }
    return {
        "id": published["id"],
        "family": published["family"],
        "pipeline": published["pipeline"],
        "components": components,
        "denoisers": published["denoisers"],
        "scheduler": published["scheduler"],
        "tokens": published["tokens"],
        "call_args": pipeline["call_args"],
        "defaults": published["defaults"],
        "pipeline_config": published.get("pipeline_config", {}),
        "diffusers": diffusers.__version__,
        "source": f"{published['source']}; shapes from the classes of diffusers {diffusers.__version__} and "
        f"transformers {transformers.__version__} on the meta device",
    }


def describe_component(class_name: str, library: str, config: dict[str, Any], dtype: str | None) -> dict[str, Any]:
    """The content of one component, in the order of `ComponentFacts`."""
    model = build(class_name, library, config)
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    known = describe_class(type(model), model)
    head_key = known["heads"]
    return {
        "class_name": class_name,
        "library": library,
        "config": config,
        "parameters": [[group.name, list(group.shape), group.repeat] for group in group_parameters(shapes)],
        "tensor_plan": resolved_plan(model),
        "heads": (config | config.get("text_config", {})).get(head_key) if head_key else None,
        "blocks": [[name, count] for name, count in stacks(model)],
        "context_plan": known["context_plan"],
        "context_splits_text": known["context_splits_text"],
        "no_split": known["no_split"],
        "dtype": dtype,
    }


def resolved_plan(model: Any) -> list[list[Any]]:
    """The class's tensor plan as [module, style, absolute sizes of fused parts]."""
    plan = []
    for pattern, style in (_tensor_plan(type(model)) or {}).items():
        module = model.get_submodule(pattern.replace("*", "0"))
        name, fused, dim = _style(style)
        blocks = fused or list(getattr(module, f"_tp_packed_{'col' if dim == 0 else 'row'}_blocks", []))
        size = module.weight.shape[dim]
        blocks = [block * size // sum(blocks) for block in blocks]
        plan.append([pattern, name, blocks if name.startswith("packed") else []])
    return plan


def _tensor_plan(cls: type) -> dict[str, Any] | None:
    """The class's own plan; transformers' plans are for its own loader and are not counted."""
    return getattr(cls, "_tp_plan", None) if issubclass(cls, diffusers.ModelMixin) else None


def _style(style: Any) -> tuple[str, list[int], int]:
    if isinstance(style, PackedColwiseParallel):
        return "packed_colwise", list(style.blocks or []), 0
    if isinstance(style, PackedRowwiseParallel):
        return "packed_rowwise", list(style.blocks or []), 1
    return style, [], 1 if style == "rowwise" else 0


def stacks(model: Any) -> list[tuple[str, int]]:
    """The outermost lists of two or more blocks."""
    return [
        (name, len(module))
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.ModuleList)
        and len(module) > 1
        and not any(atom.isdecimal() for atom in name.split("."))
    ]


def describe_class(cls: Any, model: Any = None) -> dict[str, Any]:
    """What a class can do, whatever its config; packed parts by name, so that a config gives their sizes."""
    plan = _tensor_plan(cls) or {}
    sizes, packed = _PACKED.get(cls.__name__, ({}, {}))
    styles = []
    for pattern, style in plan.items():
        name, blocks, dim = _style(style)
        parts: list[Any] = blocks or packed.get(pattern, [])
        if name.startswith("packed") and not blocks and model is not None:
            module = model.get_submodule(pattern.replace("*", "0"))
            recorded = getattr(module, f"_tp_packed_{'col' if dim == 0 else 'row'}_blocks")
            expected = [_product(sizes[part], dict(model.config)) for part in parts]
            if recorded != expected:
                raise ValueError(f"{cls.__name__}.{pattern}: the class splits {recorded}, `_PACKED` says {expected}")
        styles.append([pattern, name, parts])
    context = getattr(cls, "_cp_plan", None) or {}
    inputs = {key for part in context.values() if isinstance(part, dict) for key in part}
    no_split = getattr(cls, "_no_split_modules", None) or []
    keys = config_keys(cls)
    return {
        "tensor_plan": styles,
        "sizes": sizes,
        "context_plan": bool(context) and cls.__name__ not in _UNUSABLE_CONTEXT_PLAN,
        "context_splits_text": "encoder_hidden_states" in inputs,
        "heads": next((key for key in _HEAD_KEYS if key in keys and "UNet" not in cls.__name__), None),
        "no_split": sorted(no_split) if isinstance(no_split, set) else list(no_split),
    }


def config_keys(cls: Any) -> set[str]:
    """The keys of a class's config; a text model's own ones where it is one part of the class."""
    if issubclass(cls, diffusers.ModelMixin):
        return set(inspect.signature(cls.__init__).parameters)
    config = cls.config_class()
    return set(config.to_dict()) | set(getattr(config, "text_config", config).to_dict())


def _product(factors: list[Any], config: dict[str, Any]) -> int:
    size = 1.0
    for factor in factors:
        size *= config[factor] if isinstance(factor, str) else factor
    return int(size)


def describe_classes() -> dict[str, Any]:
    """Every denoiser class of diffusers and the usual text encoders and autoencoders, by name."""
    classes = {}
    for name in sorted(dir(diffusers)):
        cls = getattr(diffusers, name, None)
        if not (inspect.isclass(cls) and issubclass(cls, diffusers.ModelMixin)) or cls is diffusers.ModelMixin:
            continue
        try:
            model = build(name, "diffusers", {})
        except Exception:  # many classes have required arguments; their stacks then come from the weights alone
            model = None
        defaults = {
            key: parameter.default
            for key, parameter in inspect.signature(cls.__init__).parameters.items()
            if parameter.default is not inspect.Parameter.empty and isinstance(parameter.default, (int, float, str))
        }
        found = describe_class(cls, model)
        classes[name] = {
            "library": "diffusers",
            **found,
            # An autoencoder's default config may be too small to show its stacks.
            "blocks": [stack for stack, _ in stacks(model)] if model is not None and "Transformer" in name else None,
            "config_defaults": defaults if found["tensor_plan"] or found["context_plan"] else {},
        }
    for name in _TRANSFORMERS_CLASSES:
        cls = getattr(transformers, name)
        classes[name] = {"library": "transformers", **describe_class(cls), "blocks": None, "config_defaults": {}}
    return classes


def describe_pipelines() -> dict[str, Any]:
    """Every pipeline class of diffusers: its call and the token arithmetic of its family."""
    pipelines = {}
    for name in sorted(dir(diffusers)):
        cls = getattr(diffusers, name, None)
        if (
            not name.endswith("Pipeline")
            or not inspect.isclass(cls)
            or not issubclass(cls, diffusers.DiffusionPipeline)
        ):
            continue
        call_args = {
            key: parameter.default if _plain(parameter.default) else None
            for key, parameter in inspect.signature(cls.__call__).parameters.items()
            if key != "self" and parameter.kind is not inspect.Parameter.VAR_KEYWORD
        }
        family = next((facts for prefix, facts in _PIPELINES if name.startswith(prefix)), _GENERIC)
        if cls is not diffusers.DiffusionPipeline:
            pipelines[name] = {**family, "call_args": call_args}
    return pipelines


def _plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(_plain(item) for item in value)
    return isinstance(value, (bool, int, float, str))


if __name__ == "__main__":
    main()
