"""Facts files that a project keeps beside its recipes: `.dcompile/models/*.json`, written by `dcompile models add`.

They come with the repository that is checked, so they are input like a recipe: a file is read whole only below a size,
and everything in it is validated before anything uses it. Imported only where there is such a file: the models of
pydantic take longer to build than a recipe takes to check.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from dcompile.facts.data_json import render
from dcompile.facts.errors import FactsError
from dcompile.facts.project import ID, file_name
from dcompile.facts.registry import decode_model
from dcompile.facts.types import ComponentFacts, ModelFacts, TensorGroup

FORMAT_VERSION = 1
MAX_BYTES = 4_000_000
"""The largest facts file that is read; the largest of the known models is 50 kB."""
_AGAIN = "write it again with `dcompile models add`"

Text = Annotated[str, Field(max_length=300)]
Identifier = Annotated[str, Field(pattern="^[A-Za-z_][A-Za-z0-9_]*$", max_length=120)]
Size = Annotated[int, Field(ge=0, lt=2**40)]
Shape = Annotated[tuple[Annotated[int, Field(ge=1, lt=2**32)], ...], Field(max_length=8)]
Group = tuple[
    Annotated[str, Field(pattern="^[A-Za-z0-9_.*-]+$", max_length=300)], Shape, Annotated[int, Field(ge=1, le=10_000)]
]
Style = tuple[Text, Text, Annotated[tuple[Size, ...], Field(max_length=16)]]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Component(_Part):
    class_name: Identifier
    library: Annotated[str, Field(pattern="^[A-Za-z0-9_.]+$", max_length=120)]
    config: dict[Text, Any]
    parameters: Annotated[tuple[Group, ...], Field(max_length=20_000)]
    buffers: Annotated[tuple[Group, ...], Field(max_length=2_000)] = ()
    tensor_plan: Annotated[tuple[Style, ...], Field(max_length=500)] = ()
    heads: Annotated[int, Field(ge=1, lt=2**20)] | None = None
    blocks: Annotated[tuple[tuple[Text, Annotated[int, Field(ge=1, le=10_000)]], ...], Field(max_length=100)] = ()
    context_plan: bool = False
    context_splits_text: bool = False
    no_split: Annotated[tuple[Identifier, ...], Field(max_length=100)] = ()
    dtype: Identifier | None = None
    repeated_blocks: bool = False
    float32: Annotated[tuple[Identifier, ...], Field(max_length=100)] = ()
    unquantized: (
        Annotated[dict[Identifier, Annotated[tuple[Text, ...], Field(max_length=1_000)]], Field(max_length=8)] | None
    ) = None

    @model_validator(mode="after")
    def _stacked(self) -> _Component:
        for name, _, repeat in (*self.parameters, *self.buffers):
            if (repeat > 1) != (name.count("*") == 1):
                raise ValueError(f"`{name}` is there {repeat} times: one `*` stands for the number of the block")
        return self


class _Tokens(_Part):
    spatial: Annotated[int, Field(ge=1, le=4096)]
    frames: Annotated[int, Field(ge=0, le=64)]
    frames_patch: Annotated[int, Field(ge=1, le=64)] = 1
    rounds_frames: Annotated[int, Field(ge=0, le=1)] = 0
    multiple: Annotated[int, Field(ge=1, le=4096)]
    text: Annotated[int, Field(ge=0, le=2**20)]
    text_default: Annotated[int, Field(ge=0, le=2**20)]
    text_limit: Annotated[int, Field(ge=0, le=2**20)]
    floors: Annotated[int, Field(ge=1, le=4096)] | None = None


class _Guidance(_Part):
    embedded: bool
    above: Annotated[float, Field(ge=0, le=100)] | None = None
    branches: Literal["batched", "sequential"] | None


class _Conditions(_Part):
    kind: Literal["snapped", "area", "shrunk"]
    pixels: Annotated[int, Field(ge=1, lt=2**32)] | None = None
    seen: Annotated[int, Field(ge=1, lt=2**32)] | None = None
    sizes: Annotated[tuple[tuple[Size, Size], ...], Field(min_length=1, max_length=100)] | None = None

    @model_validator(mode="after")
    def _sized(self) -> _Conditions:
        if (self.sizes if self.kind == "snapped" else self.pixels) is None:
            raise ValueError(f"`{self.kind}` needs {'`sizes`' if self.kind == 'snapped' else '`pixels`'}")
        return self


class _File(_Part):
    format_version: Literal[1]
    id: Annotated[str, Field(pattern=f"^{ID.pattern}$")]
    family: Text
    pipeline: Identifier
    components: Annotated[dict[Identifier, _Component], Field(min_length=1, max_length=32)]
    denoisers: Annotated[tuple[Identifier, ...], Field(max_length=4)]
    scheduler: dict[Text, Any]
    tokens: _Tokens
    guidance: _Guidance
    conditions: _Conditions | None = None
    pictures: Annotated[tuple[Identifier, ...], Field(max_length=50)] = ()
    call_args: Annotated[dict[Identifier, Any], Field(max_length=200)]
    defaults: dict[Text, int | float | None]
    advised: Annotated[dict[Text, bool | int | float | Text], Field(max_length=20)] = {}
    pipeline_config: dict[Text, Any] = {}
    diffusers: Annotated[str, Field(pattern="^[A-Za-z0-9_.+-]*$", max_length=40)]
    source: Annotated[str, Field(max_length=2_000)]

    @model_validator(mode="after")
    def _named(self) -> _File:
        absent = [name for name in self.denoisers if name not in self.components]
        if absent:
            raise ValueError(f"the denoiser `{absent[0]}` is none of the components")
        return self


def read_facts(path: Path) -> ModelFacts:
    """The facts in a file, validated.

    Raises:
        FactsError: where the file cannot be read or holds something else.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise FactsError(f"`{path}` is larger than {MAX_BYTES} bytes, so it is no facts file", _AGAIN)
        text = path.read_bytes()
    except OSError as error:
        raise FactsError(f"`{path}` cannot be read: {error.strerror}", "check its permissions") from None
    try:
        data = _File.model_validate_json(text).model_dump(mode="json")
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        message = f"`{path}` is no facts file: {where + ': ' if where else ''}{first['msg']}"
        raise FactsError(message, _AGAIN) from None
    if path.name != file_name(data["id"]):
        raise FactsError(f"`{path}` holds the facts of `{data['id']}`", f"name it `{file_name(data['id'])}`")
    del data["format_version"]
    for part, name in (("guidance", "above"), ("tokens", "floors")):
        if data[part][name] is None:
            del data[part][name]
    if data["conditions"] is not None:
        data["conditions"] = {key: value for key, value in data["conditions"].items() if value is not None}
    return decode_model(data)


def facts_text(facts: ModelFacts) -> str:
    """The content of a facts file."""
    document = {
        "format_version": FORMAT_VERSION,
        **{name: getattr(facts, name) for name in _File.model_fields if name not in ("format_version", "components")},
        "components": {name: _component(part) for name, part in facts.components.items()},
    }
    return render(json.loads(json.dumps(document))) + "\n"


def _component(facts: ComponentFacts) -> dict[str, Any]:
    def groups(found: tuple[TensorGroup, ...]) -> list[list[Any]]:
        return [[group.name, group.shape, group.repeat] for group in found]

    return {
        **{name: getattr(facts, name) for name in _Component.model_fields},
        "parameters": groups(facts.parameters),
        "buffers": groups(facts.buffers),
        "tensor_plan": [[style.module, style.style, style.blocks] for style in facts.tensor_plan],
    }
