"""Names, shapes and dtypes from the headers of safetensors files; the weights themselves are not read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

from dcompile.facts.errors import FactsError, WeightsError

# The largest models' headers and configs are below 2 MiB; the safetensors library itself stops at 100 MB.
_MAX_JSON_BYTES = 10_000_000
_OTHER_FORMATS = (".bin", ".ckpt", ".pt", ".pth", ".gguf", ".msgpack", ".h5", ".onnx")
_DTYPES = {
    "F64": ("float64", 8),
    "F32": ("float32", 4),
    "F16": ("float16", 2),
    "BF16": ("bfloat16", 2),
    "F8_E4M3": ("float8_e4m3fn", 1),
    "F8_E5M2": ("float8_e5m2", 1),
    "I64": ("int64", 8),
    "I32": ("int32", 4),
    "I16": ("int16", 2),
    "I8": ("int8", 1),
    "U8": ("uint8", 1),
    "BOOL": ("bool", 1),
}
_DAMAGED = "copy or download the file again"


def read_json_file(path: Path) -> dict[str, Any]:
    """A JSON object from a user's file.

    Raises:
        FactsError: where the file is missing or holds something else.
    """
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_JSON_BYTES + 1)
        if len(text) > _MAX_JSON_BYTES:
            raise FactsError(f"`{path}` is larger than {_MAX_JSON_BYTES} bytes", _DAMAGED)
        data = json.loads(text)
    except FileNotFoundError:
        raise FactsError(f"`{path}` is missing", "check the path, or copy the file there") from None
    except OSError as error:
        raise FactsError(f"`{path}` cannot be read: {error.strerror}", "check the path and its permissions") from None
    except (ValueError, RecursionError) as error:
        raise FactsError(f"`{path}` is not valid JSON: {error}", _DAMAGED) from None
    if not isinstance(data, dict):
        raise FactsError(f"`{path}` holds no JSON object", _DAMAGED)
    return data


def read_header(path: Path) -> dict[str, tuple[tuple[int, ...], str]]:
    """Every tensor of one file: its name, shape and dtype, in the order of the file.

    Raises:
        WeightsError: where the file is missing, cut off or not a safetensors file.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > min(size - 8, _MAX_JSON_BYTES):
                raise WeightsError(f"`{path}` is cut off or is not a safetensors file", _DAMAGED)
            header = json.loads(file.read(length))
    except FileNotFoundError:
        raise WeightsError(f"the weight file `{path}` is missing", "copy or download it there") from None
    except OSError as error:
        raise WeightsError(f"`{path}` cannot be read: {error.strerror}", "check the path and its permissions") from None
    except (ValueError, RecursionError):
        raise WeightsError(f"the header of `{path}` is damaged", _DAMAGED) from None
    try:
        tensors = [(name, _tensor(entry)) for name, entry in header.items() if name != "__metadata__"]
    except (AttributeError, KeyError, TypeError, ValueError):
        raise WeightsError(f"the header of `{path}` is damaged", _DAMAGED) from None
    if any(end > size - 8 - length for _, (_, _, end) in tensors):
        raise WeightsError(f"`{path}` is cut off: its header names more bytes than the file has", _DAMAGED)
    ordered = sorted(tensors)
    return {name: (shape, dtype) for name, (shape, dtype, _) in ordered}


def _tensor(entry: dict[str, Any]) -> tuple[tuple[int, ...], str, int]:
    shape = tuple(entry["shape"])
    begin, end = entry["data_offsets"]
    if not all(type(number) is int and number >= 0 for number in (*shape, begin, end)) or begin > end:
        raise ValueError(shape)
    dtype, width = _DTYPES.get(entry["dtype"], (entry["dtype"].lower(), None))
    if width is not None and end - begin != prod(shape) * width:
        raise ValueError(shape)
    return shape, dtype, end


def weight_files(folder: Path, variant: str | None = None) -> Iterator[Path]:
    """The safetensors files of one component's folder, whether in one piece or several.

    Raises:
        FactsError: where there is none.
        OSError: where the folder cannot be listed.
    """
    for stem in ("diffusion_pytorch_model", "model"):
        for name in _names(stem, variant):
            if (folder / name).is_file():
                if not name.endswith(".index.json"):
                    yield folder / name
                    return
                pieces = read_json_file(folder / name).get("weight_map")
                if not isinstance(pieces, dict) or not all(isinstance(piece, str) for piece in pieces.values()):
                    raise FactsError(f"`{folder / name}` has no `weight_map`", _DAMAGED)
                if any(Path(piece).name != piece for piece in pieces.values()):
                    raise FactsError(f"`{folder / name}` names a file outside its own folder", _DAMAGED)
                yield from (folder / piece for piece in sorted(set(pieces.values())))
                return
    others = {file.name.split(".")[1] for file in folder.glob("*.safetensors") if file.name.count(".") == 2}
    if others and variant is None:
        named = " or ".join(sorted(others))
        raise FactsError(f"`{folder}` holds weights of a variant only", f"write `model.variant: {named}`")
    if not any(file.suffix in _OTHER_FORMATS for file in folder.iterdir()):
        raise WeightsError(f"`{folder}` holds no weights", "copy or download them there")
    raise FactsError(
        f"`{folder}` holds no weights in safetensors format",
        "save the pipeline with `save_pretrained(..., safe_serialization=True)`",
    )


def _names(stem: str, variant: str | None) -> tuple[str, ...]:
    plain = (f"{stem}.safetensors", f"{stem}.safetensors.index.json")
    if variant is None:
        return plain
    return (f"{stem}.{variant}.safetensors", f"{stem}.safetensors.index.{variant}.json", *plain)
