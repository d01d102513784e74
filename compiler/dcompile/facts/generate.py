"""Writes `models/*.json` from the installed classes on the meta device: `python -m dcompile.facts.generate`.

The published configs come from `facts/published/`; no weights and no network are needed. Besides the probe and the
other `facts/generate_*.py` this is the only module of the compiler that imports torch, diffusers and transformers.
"""

from __future__ import annotations

import inspect
import json
import logging
import re
from functools import lru_cache
from importlib import import_module
from importlib.metadata import version
from math import prod
from pathlib import Path
from typing import Any

import diffusers
import torch
import transformers
from transformers.core_model_loading import revert_weight_conversion
from transformers.integrations.peft import MIN_PEFT_VERSION

from dcompile.facts.data_json import render
from dcompile.facts.generate_attention import describe_attention
from dcompile.facts.generate_bins import describe_bins
from dcompile.facts.generate_pipelines import describe_pipelines, family_of
from dcompile.facts.generate_quantize import kept_float32, unquantized
from dcompile.facts.generate_schedulers import describe_schedulers
from dcompile.facts.generate_tails import describe_tails
from dcompile.facts.generate_tensor_plans import resolved_plan, style_of, tensor_plan
from dcompile.facts.generate_uses import describe_uses
from dcompile.facts.grouping import group_parameters
from dcompile.facts.pipelines import DENOISERS, defaults_of, denoisers_of, guidance_of, tokens_of
from dcompile.facts.project import file_name
from dcompile.facts.registry import MODELS, decode_component, read_json

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
_FURTHER_CLASSES = ("SiglipVisionModel",)
"""Of transformers, which a folder's pipeline may have and no published configuration here has."""
# Its own plan fails at the first forward in every mode (diffusers #14316 and #14317).
_UNUSABLE_CONTEXT_PLAN = {"LTX2VideoTransformer3DModel"}
_HEAD_KEYS = ("num_attention_heads", "num_heads")


def main(folder: Path = MODELS) -> None:
    """Writes every data file of `models/` into a folder: all but `activations.json` and `verified.json`."""
    logging.disable(logging.WARNING)
    torch.set_grad_enabled(False)
    write(folder / "versions.json", describe_versions())
    write(folder / "classes.json", {"diffusers": diffusers.__version__, "classes": describe_classes()})
    write(folder / "tails.json", {"diffusers": diffusers.__version__, "tails": describe_tails()})
    write(folder / "attention.json", {"diffusers": diffusers.__version__, **describe_attention()})
    pipelines = describe_pipelines()
    peft = {"tried": version("peft"), "encoders_need": MIN_PEFT_VERSION}
    write(folder / "pipelines.json", {"diffusers": diffusers.__version__, "peft": peft, "pipelines": pipelines})
    write(folder / "uses.json", describe_uses())
    write(folder / "bins.json", describe_bins())
    write(folder / "schedulers.json", describe_schedulers(list(pipelines)))
    published = read_published()
    for model_id in published:
        write(folder / file_name(model_id), describe_model(published, model_id, pipelines))
    write(folder / "denoisers.json", describe_denoisers(published))
    write(folder / "index.json", {model_id: file_name(model_id) for model_id in sorted(published)})


def describe_versions() -> dict[str, str]:
    """The libraries that the facts come from, without the build of this machine's torch."""
    return {name: version(name).partition("+")[0] for name in ("diffusers", "transformers", "torch", "accelerate")}


def read_published() -> dict[str, dict[str, Any]]:
    """The published configurations by hub id."""
    found = [read_json(path) for path in sorted(PUBLISHED.glob("*.json"))]
    return {model["id"]: model for model in found}


def describe_denoisers(published: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The known models by the number of weights of their first denoiser, saved buffers included.

    `keys` names a tensor that only a model's own single file has (`loaders/single_file_utils.py`).
    """
    found: dict[int, list[str]] = {}
    for model_id in sorted(published):
        name = next(name for name in DENOISERS if name in published[model_id]["components"])
        part = decode_component(describe_component(published_component(published, model_id, name)))
        count = sum(prod(group.shape) * group.repeat for group in (*part.parameters, *part.buffers))
        found.setdefault(count, []).append(model_id)
    return {
        "diffusers": diffusers.__version__,
        "keys": {model["id"]: model["single_file_key"] for model in published.values() if "single_file_key" in model},
        "models": {str(count): found[count] for count in sorted(found)},
    }


def published_component(published: dict[str, dict[str, Any]], model_id: str, name: str) -> dict[str, Any]:
    """A component's published entry; `same_as` names the model and the component that it shares."""
    part: dict[str, Any] = published[model_id]["components"][name]
    if "same_as" not in part:
        return part
    other, component = part["same_as"]
    return published_component(published, other, component) | {k: v for k, v in part.items() if k != "same_as"}


def write(path: Path, data: Any) -> None:
    """Writes canonical JSON: UTF-8, LF; lists of plain values stay on one line."""
    path.write_text(render(data) + "\n", encoding="utf-8", newline="\n")


def build(class_name: str, library: str, config: dict[str, Any]) -> Any:
    """An instance on the meta device, with tied weights tied; `library` may be the folder of a pipeline (`ltx2`)."""
    with torch.device("meta"):
        cls = class_of(class_name, library)
        return cls.from_config(config) if hasattr(cls, "from_config") else cls(cls.config_class(**config))


def class_of(class_name: str, library: str) -> Any:
    """A class by what `model_index.json` says of it: a package, or the folder of a pipeline."""
    home = library if library in ("diffusers", "transformers") else f"diffusers.pipelines.{library}"
    return getattr(import_module(home), class_name)


def describe_model(
    published: dict[str, dict[str, Any]], model_id: str, pipelines: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """The content of one model's file."""
    model = published[model_id]
    components = {
        name: describe_component(published_component(published, model_id, name)) for name in model["components"]
    }
    pipeline = pipelines[model["pipeline"]]
    decoded = {name: decode_component(part) for name, part in components.items()}
    return {
        "id": model_id,
        "family": pipeline["family"],
        "pipeline": model["pipeline"],
        "components": components,
        "denoisers": list(denoisers_of(decoded)),
        "scheduler": model["scheduler"],
        "tokens": tokens_of(pipeline, decoded),
        "guidance": guidance_of(pipeline, decoded),
        "conditions": pipeline["conditions"],
        "pictures": pipeline["pictures"],
        "call_args": pipeline["call_args"],
        "defaults": defaults_of(pipeline, decoded),
        "advised": model.get("advised", {}),
        "pipeline_config": model.get("pipeline_config", {}),
        "diffusers": diffusers.__version__,
        "source": f"{model['source']}; shapes from the classes of diffusers {diffusers.__version__} and "
        f"transformers {transformers.__version__} on the meta device",
    }


@lru_cache(maxsize=256)
def _described(text: str) -> dict[str, Any]:
    part = json.loads(text)
    class_name, library, config, dtype = part["class"], part["library"], part["config"], part.get("dtype")
    model = build(class_name, library, config)
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    known = describe_class(type(model), model)
    head_key = known["heads"]
    buffers = {name: tuple(tensor.shape) for name, tensor in persistent_buffers(model).items()}
    count = sum(parameter.numel() for parameter in model.parameters()) + sum(prod(shape) for shape in buffers.values())
    published = part.get("weight_bytes")
    if published and dtype and published != count * getattr(torch, dtype).itemsize:
        raise ValueError(f"{class_name}: {count} numbers in {dtype} are not the published {published} bytes")
    return {
        "class_name": class_name,
        "library": library,
        "config": config,
        "parameters": [[group.name, list(group.shape), group.repeat] for group in group_parameters(shapes)],
        "buffers": [[group.name, list(group.shape), group.repeat] for group in group_parameters(buffers)],
        "tensor_plan": resolved_plan(model),
        "heads": (config | config.get("text_config", {})).get(head_key) if head_key else None,
        "blocks": [[name, count] for name, count in stacks(model)],
        "context_plan": known["context_plan"],
        "context_splits_text": known["context_splits_text"],
        "no_split": known["no_split"],
        "repeated_blocks": known["repeated_blocks"],
        "float32": known["float32"],
        "unquantized": known["unquantized"],
        "dtype": dtype,
    }


def describe_component(part: dict[str, Any]) -> dict[str, Any]:
    """The content of one component, in the order of `ComponentFacts`.

    Raises:
        ValueError: where the class has not the published number of bytes.
    """
    return _described(json.dumps(part))


def persistent_buffers(model: Any) -> dict[str, Any]:
    """The floating-point buffers that a weight file holds beside the parameters."""
    saved = set(model.state_dict())
    return {name: tensor for name, tensor in model.named_buffers() if name in saved and tensor.is_floating_point()}


def stacks(model: Any) -> list[tuple[str, int]]:
    """The outermost lists of two or more blocks."""
    return [
        (name, len(module))
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.ModuleList)
        and len(module) > 1
        and not any(atom.isdecimal() for atom in name.split("."))
        and not name.endswith((".net", "caption_projection"))  # layers of a `FeedForward`; HiDream's, all called first
    ]


def describe_class(cls: Any, model: Any = None) -> dict[str, Any]:
    """What a class can do, whatever its config; packed parts by name, so that a config gives their sizes."""
    plan = tensor_plan(cls, model) or {}
    sizes, packed = _PACKED.get(cls.__name__, ({}, {}))
    styles = []
    for pattern, style in plan.items():
        name, blocks, dim = style_of(style)
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
        "repeated_blocks": bool(getattr(cls, "_repeated_blocks", None)),
        "float32": kept_float32(cls if model is None else model),
        # transformers does not quantize a model of its own that lies in a pipeline's folder (the safety checker).
        "unquantized": None if model is None or _is_in_pipeline(cls) else unquantized(model),
    }


def _is_in_pipeline(cls: Any) -> bool:
    return cls.__module__.startswith("diffusers.pipelines.") and issubclass(cls, transformers.PreTrainedModel)


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


def describe_entry(class_name: str, config: dict[str, Any]) -> dict[str, Any]:
    """What a class of diffusers can do, as an entry of `classes.json`; `config` may leave out what has a default.

    Raises:
        AttributeError: where diffusers has no such class.
    """
    cls = getattr(diffusers, class_name)
    try:
        model = build(class_name, "diffusers", config)
    except Exception:  # many classes have required arguments; their stacks then come from the weights alone
        model = None
    defaults = {
        key: parameter.default
        for key, parameter in inspect.signature(cls.__init__).parameters.items()
        if parameter.default is not inspect.Parameter.empty and isinstance(parameter.default, (int, float, str))
    }
    found = describe_class(cls, model)
    return {
        "library": "diffusers",
        **found,
        "buffers": sorted({re.sub(r"\d+", "*", name) for name in persistent_buffers(model)} if model else ()),
        # An autoencoder's default config may be too small to show its stacks.
        "blocks": [stack for stack, _ in stacks(model)] if model is not None and "Transformer" in class_name else None,
        "config_defaults": defaults if found["tensor_plan"] or found["context_plan"] else {},
    }


def _some_config(class_name: str) -> dict[str, Any]:
    """A config that a class can be made of: none, or that of a known model where it has arguments without a default."""
    try:
        build(class_name, "diffusers", {})
    except Exception:  # as above
        parts = (part for model in read_published().values() for part in model["components"].values())
        return next((part["config"] for part in parts if part.get("class") == class_name), {})
    return {}


def describe_classes() -> dict[str, Any]:
    """Every denoiser and autoencoder class of diffusers, and the encoders of the published models, by name."""
    classes = {}
    for name in sorted(dir(diffusers)):
        cls = getattr(diffusers, name, None)
        if inspect.isclass(cls) and issubclass(cls, diffusers.ModelMixin) and cls is not diffusers.ModelMixin:
            classes[name] = {**describe_entry(name, _some_config(name)), "family": family_of(name)["family"]}
    parts = [part for model in read_published().values() for part in model["components"].values()]
    encoders = {part["class"] for part in parts if part.get("library") == "transformers"}
    others = {
        **dict.fromkeys(sorted(encoders.union(_FURTHER_CLASSES)), "transformers"),
        "StableDiffusionSafetyChecker": "stable_diffusion",
    }
    for name, library in others.items():
        cls = class_of(name, library)
        model = build(name, library, {})
        classes[name] = {
            "library": library,
            **describe_class(cls, model),
            "buffers": [],
            "blocks": None,
            "config_defaults": {},
            "stored_names": stored_names(model),
        }
    return classes


def stored_names(model: Any) -> dict[str, str]:
    """Where files name the blocks of a tensor plan, or what stays unquantized, otherwise than the class: the file's
    prefix and the class's."""
    found = {}
    kept = {name.removesuffix(".weight") for names in unquantized(model).values() for name in names}
    for pattern in [*(tensor_plan(type(model), model) or {}), *sorted(kept)]:
        prefix = pattern.partition(".*")[0]
        name = pattern.replace("*", "0") + ".weight"
        (stored,) = revert_weight_conversion(model, {name: torch.empty(1, 1)})
        found[stored.removesuffix(name.removeprefix(prefix))] = prefix
        if pattern in kept:
            continue
        if "." not in prefix:  # a model without its head, from the files of the one with it
            found[f"{model.base_model_prefix}.{prefix}"] = prefix
    return {stored: own for stored, own in found.items() if stored != own}


if __name__ == "__main__":
    main()
