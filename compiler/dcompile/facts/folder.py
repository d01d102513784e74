"""Facts of a diffusers pipeline folder on this machine, from its JSON files and weight headers. Imports no torch."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any

from dcompile.facts.errors import FactsError
from dcompile.facts.grouping import group_parameters, stacked_blocks
from dcompile.facts.pipelines import (
    DENOISERS,
    describe_pipeline,
    fields_of,
    whole,
)
from dcompile.facts.registry import MODELS, matrices_of, read_json
from dcompile.facts.safetensors import read_header, read_json_file, weight_files
from dcompile.facts.types import ComponentFacts, ModelFacts, TensorStyle

__all__ = ["FactsError", "component_of_folder", "facts_of_folder"]

_MOST_ENTRIES = 200
_COPY_IT = "copy or download it there"
_TOKENIZER_SETTINGS = (
    *("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "chat_template.jinja"),
    *("chat_template.json", "preprocessor_config.json", "README.md"),
)
_WORDLESS = ("ByT5",)
"""Tokenizers whose words are the bytes themselves."""
# Persistent buffers: in the weight files, but no parameters.
_BUFFERS = ("position_ids", "running_mean", "running_var", "num_batches_tracked", "inv_freq")
_UNKNOWN_CLASS: dict[str, Any] = {
    "tensor_plan": [],
    "sizes": {},
    "context_plan": False,
    "context_splits_text": False,
    "heads": None,
    "no_split": [],
    "repeated_blocks": False,
    "float32": [],
    "unquantized": None,
    "blocks": None,
    "buffers": [],
    "config_defaults": {},
}
_NOT_A_PIPELINE = "a pipeline folder is what `pipeline.save_pretrained(...)` writes; `model.path` must name one"


@lru_cache(maxsize=1)
def known_classes() -> dict[str, Any]:
    """What each class of diffusers and the usual text encoders can do, by name."""
    return dict(read_json(MODELS / "classes.json")["classes"])


def facts_of_folder(path: Path, variant: str | None = None) -> ModelFacts:
    """The facts of a local diffusers pipeline, read once while its files stay as they are.

    Args:
        path: the folder that holds `model_index.json`.
        variant: the variant of the weight files, such as `fp16`, where there are several.

    Raises:
        FactsError: where a file is missing, damaged or cut off.
    """
    return _facts_of_state(path, variant, _state(path))


def _state(path: Path) -> tuple[tuple[str, int, int], ...]:
    """Name, size and time of the files of a pipeline's folder and of its components' folders."""
    found = []
    with suppress(OSError):  # a folder that is not there is for the caller to say
        for folder in (path, *(entry for entry in sorted(path.iterdir())[:_MOST_ENTRIES] if entry.is_dir())):
            for entry in os.scandir(folder):
                status = entry.stat()
                found.append((entry.path, status.st_size, status.st_mtime_ns))
    return tuple(found)


@lru_cache(maxsize=16)
def _facts_of_state(path: Path, variant: str | None, state: object) -> ModelFacts:
    """The facts of a folder whose files are as `state` says."""
    if not (path / "model_index.json").is_file():
        what = "is no folder" if not path.is_dir() else "holds no `model_index.json`"
        raise FactsError(f"`{path}` {what}", _NOT_A_PIPELINE)
    index = read_json_file(path / "model_index.json")
    pipeline_class = index.get("_class_name")
    if not isinstance(pipeline_class, str):
        raise FactsError(f"`{path / 'model_index.json'}` does not name its pipeline class", _NOT_A_PIPELINE)
    if "Combined" in pipeline_class:
        hint = "name the folder of one of them, such as its decoder's"
        raise FactsError(f"{pipeline_class} is several pipelines in one, whose parts are loaded one by one", hint)
    pipeline = describe_pipeline(pipeline_class)
    if len(index) > _MOST_ENTRIES:
        raise FactsError(f"`{path / 'model_index.json'}` has more than {_MOST_ENTRIES} entries", _NOT_A_PIPELINE)
    components, scheduler = {}, {}
    for name, entry in index.items():
        if not (isinstance(entry, list) and len(entry) == 2 and all(isinstance(part, str) for part in entry)):
            continue
        library, class_name = entry
        if name == "scheduler":
            config = read_json_file(path / name / "scheduler_config.json")
            scheduler = {"class": class_name, **_public(config)}
        elif (path / name / "config.json").is_file():
            components[name] = component_of_folder(path / name, class_name, library, variant)
        elif name in DENOISERS or name.startswith(("vae", "text_encoder")):
            raise FactsError(f"`{path / name / 'config.json'}` is missing", _COPY_IT)
        elif name.startswith("tokenizer"):
            _expect_words(path / name, class_name)
    if not any(name in components for name in DENOISERS):
        raise FactsError(f"`{path}` has no denoiser (`{'`, `'.join(DENOISERS)}`)", _NOT_A_PIPELINE)
    return ModelFacts(
        **fields_of(pipeline, components),
        id=path.name,
        pipeline=pipeline_class,
        scheduler=scheduler,
        diffusers=read_json(MODELS / "pipelines.json")["diffusers"] if pipeline["call_args"] else "",
        source=f"the configs and weight headers in {path.name}",
        pipeline_config={
            name: value for name, value in index.items() if not name.startswith("_") and not isinstance(value, list)
        },
    )


def _expect_words(folder: Path, class_name: str) -> None:
    """A tokenizer without its words is no error to transformers: it makes an empty one, and every picture is wrong.

    Raises:
        FactsError: where the folder is missing, or has settings and no words.
    """
    if not folder.is_dir():
        raise FactsError(f"`{folder}` is missing", _COPY_IT)
    has_words = any(file.name not in _TOKENIZER_SETTINGS for file in folder.iterdir() if file.is_file())
    if not has_words and not class_name.startswith(_WORDLESS):
        raise FactsError(f"`{folder}` holds no words", "copy or download `tokenizer.json` or the vocabulary there")


def component_of_folder(
    folder: Path, class_name: str, library: str = "diffusers", variant: str | None = None
) -> ComponentFacts:
    """The facts of one component's folder.

    Raises:
        FactsError: where a file is missing, damaged or cut off.
    """
    config = _public(read_json_file(folder / "config.json"))
    tensors: dict[str, tuple[tuple[int, ...], str]] = {}
    for file in weight_files(folder, variant):
        tensors |= read_header(file)
    tied = _tied(tensors, _flat(config))
    known = known_classes().get(class_name)
    if known is None and library == "diffusers":
        from dcompile.facts.probe import probe_class

        known = probe_class(class_name, config)
    unasked = known is None and library != "transformers"
    known = known or _UNKNOWN_CLASS
    own = set(known["buffers"])
    stored = {name: shape for name, (shape, _) in tensors.items() if name.rpartition(".")[2] not in _BUFFERS}
    buffers = {name: shape for name, shape in stored.items() if re.sub(r"\d+", "*", name) in own}
    shapes = {name: shape for name, shape in stored.items() if name not in tied and name not in buffers}
    sizes: Counter[str] = Counter()
    for name, shape in shapes.items():
        sizes[tensors[name][1]] += prod(shape)
    shapes = {_own_name(name, known.get("stored_names", {})): shape for name, shape in shapes.items()}
    settings = known["config_defaults"] | _flat(config)
    stacks = dict(stacked_blocks(list(shapes)))
    wanted = known["blocks"] if known["blocks"] is not None else [name for name, count in stacks.items() if count > 1]
    return ComponentFacts(
        class_name=class_name,
        library=library,
        config=config,
        parameters=group_parameters(shapes),
        buffers=group_parameters(buffers),
        tensor_plan=_tensor_plan(known, settings),
        heads=(whole(settings.get(known["heads"])) or None) if known["heads"] else None,
        blocks=tuple((name, stacks[name]) for name in wanted if name in stacks),
        context_plan=known["context_plan"],
        context_splits_text=known["context_splits_text"],
        no_split=tuple(known["no_split"]),
        dtype=sizes.most_common(1)[0][0] if sizes else None,
        repeated_blocks=known["repeated_blocks"],
        float32=tuple(known["float32"]),
        unquantized=matrices_of(known["unquantized"]),
        is_guessed=unasked,
    )


def _own_name(stored: str, prefixes: dict[str, str]) -> str:
    """The class's name of a parameter that files keep under another one."""
    for prefix, own in prefixes.items():
        if stored.startswith(f"{prefix}."):
            return own + stored.removeprefix(prefix)
    return stored


def _tied(tensors: Collection[str], config: dict[str, Any]) -> set[str]:
    """Names under which some files repeat a weight that the model holds once."""
    tied = set()
    if "shared.weight" in tensors:
        tied |= {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"}
    if config.get("tie_word_embeddings") is True:
        tied.add("lm_head.weight")
    return tied


def _public(config: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if not key.startswith("_")}


def _flat(config: dict[str, Any]) -> dict[str, Any]:
    """The config with the keys of its text model, where that is one part of it."""
    text = config.get("text_config")
    return config | text if isinstance(text, dict) else config


def _tensor_plan(known: dict[str, Any], settings: dict[str, Any]) -> tuple[TensorStyle, ...]:
    """The class's plan with the sizes of fused parts that this config gives."""
    sizes = {}
    for name, factors in known["sizes"].items():
        found = [settings.get(factor) if isinstance(factor, str) else factor for factor in factors]
        numbers = [number for number in found if isinstance(number, (int, float)) and number > 0]
        if len(numbers) < len(found):
            return ()
        sizes[name] = int(prod(numbers))
    return tuple(
        TensorStyle(module, style, tuple(sizes.get(block, block) for block in blocks))
        for module, style, blocks in known["tensor_plan"]
    )
