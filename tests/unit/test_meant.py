"""What was meant by a name that is not known: whole names, and names that leave parts out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dcompile.core.flow import flow
from dcompile.core.meant import of_some_owner, with_parts
from dcompile.driver import Compiled, compile_recipe
from dcompile.source.parse import parse
from hypothesis import given
from hypothesis import strategies as st

HEAD = "version: 1\nmodel: {id: black-forest-labs/FLUX.1-dev}\n"
RUN = "run: {prompts: [a red fox]}\n"


def only(compiled: Compiled) -> tuple[str, str, object]:
    (found,) = compiled.diagnostics
    return found.code, found.hint, found.fix


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("h100", "say which: `h100-pcie-80gb`, `h100-sxm-80gb`;"),
        ("A100 80GB", "say which: `a100-pcie-80gb`, `a100-sxm-80gb`;"),
        ("h200", "did you mean `h200-sxm`?"),
        ("rtx4090", "did you mean `rtx-4090`?"),
        ("tpu-v4", "`dcompile hardware` lists them"),
    ],
)
def test_devices(name: str, said: str, compiled: Callable) -> None:
    code, hint, _ = only(compiled(HEAD + f"devices: {{gpu: {name}}}\n" + RUN))
    assert code == "DC302"
    assert hint.startswith(said)


@pytest.mark.parametrize(
    ("name", "said", "fix"),
    [
        ("flux.1-dev", "did you mean `black-forest-labs/FLUX.1-dev`?", "black-forest-labs/FLUX.1-dev"),
        ("Qwen-Image", "did you mean `Qwen/Qwen-Image`?", "Qwen/Qwen-Image"),
        ("cogvideox", "say which: `zai-org/CogVideoX-2b`, `zai-org/CogVideoX-5b`;", None),
        ("me/private", "`dcompile models` lists", None),
    ],
)
def test_models(name: str, said: str, fix: str | None, compiled: Callable) -> None:
    code, hint, right = only(compiled(f"version: 1\nmodel: {{id: {name}}}\n{RUN}"))
    assert (code, right) == ("DC301", fix)
    assert hint.startswith(said)


def test_nothing_is_meant_by_nothing() -> None:
    assert with_parts("", ["a-b"]) == with_parts("--", ["a-b"]) == ()
    assert of_some_owner("", ["a/"]) is None
    assert of_some_owner("x", ["a/x", "b/X"]) is None


def test_a_folder_as_an_id_and_an_id_as_a_folder(tmp_path: Path) -> None:
    (tmp_path / "weights").mkdir()
    file = tmp_path / "r.yaml"
    for key, said in (
        ("id: weights", "write it under `path`"),
        ("id: ./weights", "write it under `path`"),
        ("path: black-forest-labs/FLUX.1-dev", "write it under `id`"),
    ):
        file.write_text(f"version: 1\nmodel: {{{key}}}\n{RUN}", encoding="utf-8")
        (found,) = compile_recipe(file).diagnostics
        assert said in found.hint


def test_attention_backends_by_the_names_of_others(compiled: Callable) -> None:
    for named, meant in (("flash_attn", "flash"), ("sdpa", "native"), ("flash_attention_3", "_flash_3")):
        text = HEAD + f"devices: {{gpu: h100-sxm-80gb}}\ncomponents: {{transformer: {{attention: {named}}}}}\n" + RUN
        assert only(compiled(text)) == ("DC410", f"did you mean `{meant}`?", meant)


def test_what_is_found_in_a_moved_entry_points_at_it(compiled: Callable) -> None:
    text = HEAD + "devices: {gpu: h100-sxm-80gb}\nparallel: {components: {vae: {dtype: float32}}}\n" + RUN
    moved, differs = compiled(text).diagnostics
    assert (moved.code, differs.code) == ("DC207", "DC340")
    assert differs.path == moved.path == ("parallel", "components", "vae", "dtype")


def test_pictures_are_not_judged_by_a_pipeline_that_was_not_meant() -> None:
    text = HEAD.replace("{id", "{pipeline: FluxPriorReduxPipeline, id") + "devices: {gpu: h100-sxm-80gb}\n"
    text += "run: {prompts: [a red fox], images: [fox.png]}\n"
    file = Path(__file__).parents[1] / "golden" / "pictures" / "r.yaml"
    assert only(compile_recipe(file, text=text.encode()))[0] == "DC363"


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**62), 2**62)
        | st.text(st.characters(min_codepoint=32, max_codepoint=126)),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab-: ", min_size=1), inner, max_size=3),
        max_leaves=8,
    )
)
def test_a_value_on_one_line_is_read_back(value: Any) -> None:
    document, faults = parse(f"a: {flow(value)}\n", "r.yaml")
    assert faults == ()
    assert document is not None
    assert document.value == {"a": value}
