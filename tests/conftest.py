"""What all tests share: the command line, a recipe's text compiled, and small pipeline folders, whose weights are
headers and zeros."""

from __future__ import annotations

import json
import struct
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from math import prod
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from dcompile.cli.main import main
from dcompile.driver import Compiled, compile_recipe

Compile = Callable[..., Compiled]
Cli = Callable[..., "Result"]
PipelineFolder = Callable[..., Path]
Quickly = Callable[[Callable[[], Any]], Any]

AUTOENCODERS = {
    "AutoencoderKL": {"block_out_channels": [1, 1, 1, 1]},
    "AutoencoderKLWan": {"temperal_downsample": [False, True, True]},
}
"""Configurations from which facts take the size of a latent: 8 pixels a side."""


def write_weights(file: Path, shapes: Mapping[str, Sequence[int]]) -> None:
    """Writes a safetensors file of bfloat16 zeros."""
    header: dict[str, Any] = {}
    end = 0
    for name, shape in shapes.items():
        start, end = end, end + 2 * prod(shape)
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write_bytes(struct.pack("<Q", len(text)) + text + bytes(end))


@pytest.fixture
def weights_file() -> Callable[[Path, Mapping[str, Sequence[int]]], None]:
    """Writes a safetensors file of bfloat16 zeros: `weights_file(path, {"a.weight": (4, 8)})`."""
    return write_weights


@pytest.fixture
def pipeline_folder(tmp_path: Path) -> PipelineFolder:
    """Writes a folder as `save_pretrained` does: `pipeline_folder("HunyuanVideoPipeline", class, config, vae)`.

    Gives its path. The denoiser has one weight and the configuration that is given; the autoencoder, where one is
    named, one of 8 pixels a latent.
    """

    def write(
        pipeline: str,
        denoiser: str,
        config: Mapping[str, Any] | None = None,
        vae: str | None = None,
        name: str = "model",
        shapes: Mapping[str, Sequence[int]] | None = None,
    ) -> Path:
        folder = tmp_path / name
        role = "unet" if denoiser.startswith("UNet") else "transformer"
        scheduler = "FlowMatchEulerDiscreteScheduler"
        parts = {role: (denoiser, dict(config or {})), **({"vae": (vae, AUTOENCODERS[vae])} if vae else {})}
        index = {"_class_name": pipeline, "scheduler": ["diffusers", scheduler]}
        for part, (class_name, settings) in parts.items():
            (folder / part).mkdir(parents=True)
            (folder / part / "config.json").write_text(json.dumps({"_class_name": class_name, **settings}))
            weights = shapes if shapes and part == role else {"weight": (4, 4)}
            write_weights(folder / part / "diffusion_pytorch_model.safetensors", weights)
            index[part] = ["diffusers", class_name]
        (folder / "scheduler").mkdir()
        (folder / "scheduler" / "scheduler_config.json").write_text(json.dumps({"_class_name": scheduler}))
        (folder / "model_index.json").write_text(json.dumps(index))
        return folder

    return write


def png(width: int, height: int) -> bytes:
    """A PNG of one colour, made without Pillow."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\x80" * width) * height, 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


@pytest.fixture
def picture(tmp_path: Path) -> Callable[..., str]:
    """Draws an input picture beside the recipe and gives its name: `picture(width, height, name)`."""

    def draw(width: int = 800, height: int = 600, name: str = "fox.png") -> str:
        (tmp_path / name).write_bytes(png(width, height))
        return name

    return draw


@pytest.fixture
def compiled(tmp_path: Path) -> Compile:
    """Compiles a recipe's text: `compiled(text)`, `compiled(text, {"prompts.txt": "a fox"})`; gives the `Compiled`."""

    def compile_text(text: str, files: Mapping[str, str] | None = None) -> Compiled:
        for name, content in (files or {}).items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(content, encoding="utf-8")
        file = tmp_path / "recipe.yaml"
        file.write_text(dedent(text).lstrip("\n"), encoding="utf-8")
        return compile_recipe(file)

    return compile_text


SECONDS = 2.0
"""What no recipe may cost, of one processor."""


@pytest.fixture
def quickly() -> Quickly:
    """Does something that may cost two seconds of one processor at most: `quickly(work)` gives what `work` gives.

    The least of three tries counts: a machine that others use adds to a cost and never takes from it.
    """

    def call(work: Callable[[], Any]) -> Any:
        costs: list[float] = []
        while len(costs) < 3:
            start = time.process_time()
            result = work()
            costs.append(time.process_time() - start)
            if costs[-1] < SECONDS:
                return result
        raise AssertionError(f"{costs} s of a processor, where {SECONDS} s are allowed")

    return call


class Result:
    """What a command printed and its exit code; never a traceback."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err
        assert "Traceback" not in out + err


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Runs the command line in `tmp_path`: `cli("check", file)`; gives the `Result`."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> Result:
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as stop:
            code = int(stop.code or 0)
        streams = capsys.readouterr()
        return Result(code, streams.out, streams.err)

    return call
