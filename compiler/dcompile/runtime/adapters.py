"""LoRA weights go into whole models, before anything is split; those that are fused leave no layers behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dcompile.runtime.errors import RunError


def load(pipeline: Any, program: dict[str, Any], root: Path) -> None:
    """Loads the plan's adapters: first those that are merged into the weights, then those that stay layers.

    Raises:
        RunError: where an adapter's layers stay in a component that is split by `tensor`.
    """
    adapters = list(enumerate(program["pipeline"]["adapters"]))
    merged = [(index, adapter) for index, adapter in adapters if adapter["fuse"]]
    if merged:
        names = _load(pipeline, merged, root)
        # The loaders' own default leaves text encoders and a second transformer out.
        components = [name for name, found in pipeline.get_list_adapters().items() if set(found) & set(names)]
        pipeline.fuse_lora(components=components, adapter_names=names)
        pipeline.unload_lora_weights()
    layers = [(index, adapter) for index, adapter in adapters if not adapter["fuse"]]
    if layers:
        _load(pipeline, layers, root)
    for name, component in program["components"].items():
        if not component["omit"] and component["tensor"] and getattr(getattr(pipeline, name), "peft_config", None):
            raise RunError(f"an adapter changes `{name}`, which is split by `tensor`: set `fuse: true` for it")


def _load(pipeline: Any, adapters: list[tuple[int, dict[str, Any]]], root: Path) -> list[str]:
    names = []
    for index, adapter in adapters:
        path = root / adapter["path"]
        options: dict[str, Any] = {"adapter_name": f"adapter_{index}"}
        if adapter["component"] == "transformer_2":
            options["load_into_transformer_2"] = True
        if path.is_file():
            pipeline.load_lora_weights(path.parent, weight_name=path.name, **options)
        else:
            pipeline.load_lora_weights(path if path.exists() else adapter["path"], **options)
        names.append(options["adapter_name"])
    pipeline.set_adapters(names, [adapter["weight"] for _, adapter in adapters])
    return names
