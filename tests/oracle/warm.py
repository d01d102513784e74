"""Imports everything that ranks need, once, before they are forked."""

from __future__ import annotations

import os
from importlib import import_module

_MODULES = (
    "accelerate",
    "diffusers.guiders",
    "peft",
    "torchao.quantization",
    "torch.distributed.tensor.parallel",
    "torch.distributed.device_mesh",
    "dcompile.runtime.generate",
    "dcompile.runtime.load",
    "dcompile.runtime.logical_devices",
    "dcompile.runtime.ranks",
)


def warm() -> None:
    """Call it before torch has computed anything: a process with running thread pools must not fork."""
    os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    # transformers' loading threads would start torch's thread pool, which does not survive a fork.
    os.environ.update(HF_DEACTIVATE_ASYNC_LOAD="1")
    os.environ.update(TRANSFORMERS_VERBOSITY="error", DIFFUSERS_VERBOSITY="error", TORCH_CPP_LOG_LEVEL="ERROR")
    import torch

    torch.set_num_threads(1)
    for module in _MODULES:
        import_module(module)
    import diffusers
    import transformers

    diffusers.utils.logging.disable_progress_bar()
    transformers.utils.logging.disable_progress_bar()
    for name in ("DiffusionPipeline", "AutoencoderKL", "FlowMatchEulerDiscreteScheduler"):
        getattr(diffusers, name)
    for name in ("CLIPTextModel", "CLIPTokenizer", "T5EncoderModel", "T5TokenizerFast"):
        getattr(transformers, name)
