"""The shape of a recipe: what is refused, with which code, where, and what is said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from dcompile.core.diagnostics import Diagnostic, Severity, has_errors
from dcompile.core.units import parse_bytes
from dcompile.recipe.canonical import canonical, recipe_digest
from dcompile.recipe.decode import decode
from dcompile.recipe.faults import FAULTS
from dcompile.recipe.model import Recipe
from dcompile.recipe.sections import SECTIONS, fields
from dcompile.recipe.suggest import ALIASES
from dcompile.source.document import Document
from dcompile.source.parse import parse
from hypothesis import given, settings
from hypothesis import strategies as st

HEAD = "version: 1\nmodel: {id: a/b}\n"
TOKEN = "hf_" + "aB3" * 10


def decoded(text: str) -> tuple[Recipe | None, Document, tuple[Diagnostic, ...]]:
    document, _ = parse(text, "r.yaml")
    assert document is not None
    recipe, found = decode(document)
    return recipe, document, found


def places(document: Document, found: tuple[Diagnostic, ...]) -> list[tuple[str, int, int]]:
    spans = [(item.code, document.position(item.path, key=item.is_key)[1]) for item in found]
    return [(code, span.line, span.column) for code, span in spans]


@pytest.mark.parametrize(
    ("text", "expected", "said"),
    [
        ("run: {}\n", [("DC202", 1, 1), ("DC202", 1, 1)], "needs the key `version`"),
        ("version: 1\nmodle: {id: a}\n", [("DC201", 2, 1)], "did you mean `model`?"),
        ("versoin: 1\nmodel: {id: a}\n", [("DC201", 1, 1)], "did you mean `version`?"),
        ("version: 1\nmodel: {idd: a}\n", [("DC201", 2, 9)], "did you mean `id`?"),
        ("version: 1\nmodel_id: a\n", [("DC201", 2, 1)], "in a recipe this is `model.id`"),
        (HEAD + "parallel: {tensor: {degre: 2}}\n", [("DC201", 3, 21)], "did you mean `degree`?"),
        ("version: 1\nmodel: {}\n", [("DC210", 2, 1)], "neither `id` nor `path`"),
        ("version: 1\nmodel: {id: a, path: b}\n", [("DC210", 2, 16)], "both `id` and `path`"),
        ("version: 2\nmodel: {id: a}\n", [("DC204", 1, 10)], "this dcompile reads 1"),
        ("version: 1.0\nmodel: {id: a}\n", [("DC203", 1, 10)], "this dcompile reads 1"),
        ("version: true\nmodel: {id: a}\n", [("DC203", 1, 10)], "this dcompile reads 1"),
        ("version: '1'\nmodel: {id: a}\n", [("DC203", 1, 10)], "this dcompile reads 1"),
        ("version:\nmodel:\n", [("DC206", 1, 1), ("DC206", 2, 1)], "has nothing under it"),
        ("version: 1\nmodel: a/b\n", [("DC203", 2, 8)], "must be a mapping"),
        (HEAD + "run:\n", [("DC206", 3, 1)], "`run` has nothing under it"),
        (HEAD + "run: null\n", [("DC206", 3, 1)], "`run` is `null`"),
        (HEAD + "parallel:\n", [("DC206", 3, 1)], "`parallel` has nothing under it"),
        (HEAD + "parallel: {auto: }\n", [("DC206", 3, 12)], "write `parallel: auto`"),
        (HEAD + "parallel: {auto: true}\n", [("DC203", 3, 18)], "write `parallel: auto`"),
        (HEAD + "parallel: x\n", [("DC204", 3, 11)], "`auto` or a mapping"),
        (HEAD + "parallel: 4\n", [("DC204", 3, 11)], "`auto` or a mapping"),
        (HEAD + "parallel: {tensor: 0}\n", [("DC205", 3, 20)], "must be at least 1"),
        (HEAD + "parallel: {tensor: 5000}\n", [("DC205", 3, 20)], "must be at most 4096"),
        (HEAD + "parallel: {tensor: x}\n", [("DC203", 3, 20)], "a whole number or a mapping"),
        (HEAD + "parallel: {tensor: {}}\n", [("DC202", 3, 12)], "needs the key `degree`"),
        (HEAD + "parallel: {tensor: {degree: x}}\n", [("DC203", 3, 29)], "must be a whole number"),
        (HEAD + "parallel: {tensor: {degree: 2, q: 1}}\n", [("DC201", 3, 32)], "known keys: degree, plan"),
        (HEAD + "parallel: {tensor: true}\n", [("DC203", 3, 20)], "is `true`"),
        (HEAD + "parallel: {device_map: balance}\n", [("DC204", 3, 24)], "did you mean `balanced`?"),
        (HEAD + "parallel: {device_map: {x: y}}\n", [("DC203", 3, 28)], "a whole number or a list"),
        (HEAD + "parallel: {device_map: {x: [-1]}}\n", [("DC205", 3, 29)], "must be at least 0"),
        (HEAD + "devices: [1]\n", [("DC203", 3, 10)], "a mapping or text"),
        (HEAD + "devices: {gpus: l4}\n", [("DC203", 3, 17)], "write a list: [l4]"),
        (HEAD + "devices: {gpus: 3}\n", [("DC203", 3, 17)], "`per_node` counts them"),
        (HEAD + "output: {name: {seed}}\n", [("DC203", 3, 16)], 'put it in quotes: `name: "{seed}"`'),
        (HEAD + "devices: {memory: 24}\n", [("DC208", 3, 19)], "24GiB, 24GB"),
        (HEAD + "devices: {memory: 24G}\n", [("DC208", 3, 19)], "24GiB (25769803776 bytes) or 24GB (24000000000"),
        (HEAD + "devices: {host_memory: 1.5}\n", [("DC208", 3, 24)], "1.5GiB"),
        (HEAD + "devices: {reserve: lots}\n", [("DC208", 3, 20)], "is not a size"),
        (HEAD + "devices: {memory: [1]}\n", [("DC208", 3, 20)], "1GiB"),
        (HEAD + "devices: {memory: [24GiB, 12G]}\n", [("DC208", 3, 27)], "12GiB"),
        (HEAD + "devices: {memory: []}\n", [("DC206", 3, 19)], "is empty"),
        (HEAD + "devices: {memory: {a: b}}\n", [("DC203", 3, 19)], "text or a list"),
        (HEAD + "run: {prompts: 3}\n", [("DC203", 3, 16)], "a list or text"),
        (HEAD + "run: {prompts: [a, 1]}\n", [("DC203", 3, 20)], 'write "1" in quotes'),
        (HEAD + "run: {guidance: x}\n", [("DC203", 3, 17)], "must be a number"),
        (HEAD + "run: {steps: 4.0}\n", [("DC203", 3, 14)], "write 4"),
        (HEAD + "run: {steps: '4'}\n", [("DC203", 3, 14)], "write 4, without quotes"),
        (HEAD + "run: {seed: -1}\n", [("DC205", 3, 13)], "must be at least 0"),
        (HEAD + "model2: 1\n", [("DC201", 3, 1)], "did you mean `model`?"),
        (HEAD + "Run: {}\n", [("DC201", 3, 1)], "write `run`"),
        (HEAD + "requires: {diffusers: 0.420}\n", [("DC203", 3, 23)], 'write "0.420" in quotes'),
        (HEAD + "launch: {env: {A: 1}}\n", [("DC203", 3, 19)], 'write "1" in quotes'),
        (HEAD + "components: {vae: {tiling: no}}\n", [("DC203", 3, 28)], "write `tiling: false`"),
        (HEAD + "components: {vae: {compile: on}}\n", [("DC203", 3, 29)], "write `compile: true`"),
        (HEAD + "components: {vae: {dtype: bf16}}\n", [("DC204", 3, 27)], "did you mean `bfloat16`?"),
        (HEAD + "components: {vae: {dtype: torch.float16}}\n", [("DC204", 3, 27)], "did you mean `float16`?"),
        (HEAD + "components: {vae: 3}\n", [("DC203", 3, 19)], "must be a mapping"),
        (HEAD + "components: {t: {quantize: nf4}}\n", [("DC203", 3, 28)], "write it like `quantize: {method: torchao"),
        (HEAD + "parallel: {context: 4}\n", [("DC203", 3, 21)], "write it like `context: {ulysses: "),
        (HEAD + "requires: '>=0.42'\n", [("DC203", 3, 11)], 'write it like `requires: {diffusers: ">=0.42"}`'),
        (HEAD + "parallel: {tensor: auto}\n", [("DC203", 3, 20)], "write `parallel: auto`"),
        (HEAD + "components: {vae: {tensor: 2}}\n", [("DC207", 3, 20)], "moved to `parallel.components.vae.tensor`"),
        (HEAD + "parallel: {components: {vae: {dtype: x}}}\n", [("DC207", 3, 31)], "moved to `components.vae.dtype`"),
        (HEAD + f"name: {TOKEN}\n", [("DC209", 3, 7)], "holds a token"),
        (HEAD + f"run: {{args: {{{TOKEN}: 1}}}}\n", [("DC209", 3, 7)], "a key of `run.args` holds a token"),
        (HEAD + f"{TOKEN}: 1\n", [("DC209", 1, 1)], "a key of the recipe holds a token"),
        (HEAD + f"launch: {{env: {{A: 'x {TOKEN}'}}}}\n", [("DC209", 3, 19)], "HF_TOKEN"),
        (HEAD + "launch: {env: {HF_TOKEN: x}}\n", [("DC209", 3, 26)], "is the name of a secret"),
        (HEAD + "launch: {env: {WANDB_API_KEY: '1'}}\n", [("DC209", 3, 31)], "is the name of a secret"),
    ],
)
def test_refused(text: str, expected: list[tuple[str, int, int]], said: str) -> None:
    recipe, document, found = decoded(text)
    assert recipe is None
    assert places(document, found) == expected
    assert any(said in f"{item.message} | {item.hint}" for item in found), found
    assert not any(word in repr(found) for word in ("pydantic", "Input should", "union", "constrained", TOKEN))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("devices:\n  gpu:\n  per_node: 4\n", [("DC206", 4, 3)]),
        ("run: {seed: , steps: 3}\n", [("DC206", 3, 7)]),
        ("components:\n  text_encoder_3:\n", [("DC206", 4, 3)]),
        ("devices: {gpu: null}\nrun: {seed: ~}\ncomponents: {text_encoder_3: null}\n", []),
    ],
)
def test_a_key_without_a_value_is_not_passed_over(text: str, expected: list[tuple[str, int, int]]) -> None:
    recipe, document, found = decoded(HEAD + text)
    assert recipe is not None
    assert places(document, found) == expected
    assert all(item.severity is Severity.WARNING for item in found)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("run: {stps: 3}\n", "`steps`"),
        ("run: {num_inference_steps: 3}\n", "`steps`"),
        ("run: {guidance_scale: 3}\n", "`guidance`"),
        ("run: {true_cfg_scale: 3}\n", "`true_cfg`"),
        ("run: {num_frames: 3}\n", "`frames`"),
        ("run: {num_images_per_prompt: 3}\n", "`images_per_prompt`"),
        ("run: {prompt: x}\n", "`prompts`"),
        ("run: {generator: 3}\n", "`seed`"),
        ("num_inference_steps: 3\n", "`run.steps`"),
        ("torch_dtype: bfloat16\n", "`model.dtype`"),
        ("steps: 3\n", "`run`"),
        ("tensor: 3\n", "`parallel`"),
        ("parallel: {ulysses: 2}\n", "`parallel.context`"),
        ("parallel: {ulysses_degree: 2}\n", "`parallel.context.ulysses`"),
        ("parallel: {ring_degree: 2}\n", "`parallel.context.ring`"),
        ("parallel: {tp_degree: 2}\n", "`tensor`"),
        ("parallel: {dp: 2}\n", "`data`"),
        ("parallel: {data_parallel: 2}\n", "`data`"),
        ("parallel: {device: 1}\n", "`parallel.components.<component>`"),
        ("parallel: {context: {tensor: 2}}\n", "`parallel`"),
        ("devices: {num_gpus: 2}\n", "`per_node`"),
        ("devices: {per-node: 2}\n", "`per_node`"),
    ],
)
def test_unknown_keys_say_what_was_meant(text: str, meant: str) -> None:
    _, _, found = decoded(HEAD + text)
    assert [item.code for item in found] == ["DC201"]
    assert meant in found[0].hint


def test_every_alias_leads_to_a_key() -> None:
    known = {(*pattern, name) for pattern, section in SECTIONS.items() for name in fields(section)}
    named = {".".join("<component>" if part == "*" else part for part in path) for path in known}
    for target in ALIASES.values():
        assert target in named or target.replace(".vae.", ".<component>.") in named


def test_a_faulty_value_has_one_diagnostic() -> None:
    document, faults = parse(HEAD + "run: {steps: 010, sed: 1}\n", "r.yaml")
    assert document is not None
    recipe, found = decode(document)
    assert recipe is None
    assert [item.code for item in (*faults, *found)] == ["DC117", "DC201"]


def test_a_faulty_file_has_no_recipe() -> None:
    document, faults = parse(HEAD + "run: {steps: 010}\n", "r.yaml")
    assert document is not None
    assert [item.code for item in faults] == ["DC117"]
    assert decode(document) == (None, ())


FULL = """
version: 1
name: fox
requires: {diffusers: ">=0.42"}
model:
  path: weights/flux
  like: black-forest-labs/FLUX.1-dev
  dtype: bfloat16
  scheduler: {class: EulerDiscreteScheduler, shift: 3.0}
  adapters: [{path: a.safetensors, weight: 0.8, fuse: true}]
components: {vae: {tiling: true, cache: {kind: x}}, safety_checker: null}
devices: {gpu: l4, per_node: 4, memory: 22GiB, ids: [0, 1, 2, 3]}
parallel:
  data: 2
  tensor: {degree: 2, plan: ours}
  components: {vae: {device: 1}, text_encoder: {tensor: 2, offload: model}}
run: {prompts: [a, b], steps: 28, guidance: 3.5, args: {max_sequence_length: 8}}
output: {dir: out, format: png}
launch: {timeout_seconds: 60, env: {B: x, A: y}}
"""


def test_a_full_recipe() -> None:
    recipe, _, found = decoded(FULL)
    assert found == ()
    assert recipe is not None
    assert recipe.model.scheduler is not None
    assert recipe.model.scheduler.class_ == "EulerDiscreteScheduler"
    whole = canonical(recipe)
    assert list(whole) == list(Recipe.model_fields)
    assert list(whole["launch"]["env"]) == ["A", "B"]
    assert list(whole["components"]) == ["safety_checker", "vae"]
    assert whole["model"]["scheduler"] == {"class": "EulerDiscreteScheduler", "shift": 3}
    assert Recipe.model_validate(whole) == recipe


def test_the_digest_is_of_what_is_said() -> None:
    one = decoded(HEAD + "run: {steps: 3, seed: 1}\noutput: {dir: out}\n")[0]
    two = decoded("# x\nmodel:\n  id: 'a/b'\nrun:\n  seed: 1\n  steps: 3\nversion: 1\n")[0]
    other = decoded(HEAD + "run: {steps: 4, seed: 1}\n")[0]
    assert one is not None
    assert two is not None
    assert other is not None
    assert recipe_digest(one) == recipe_digest(two)
    assert recipe_digest(one) != recipe_digest(other)
    assert recipe_digest(one).startswith("sha256:")


def test_many_unknown_keys_are_quick(quickly: Callable[..., Any]) -> None:
    text = HEAD + "".join(f"key_number_{index}: 1\n" for index in range(5000))
    quickly(lambda: decoded(text))


KEYS = sorted({name for section in SECTIONS.values() for name in fields(section)} | set(ALIASES) | {"vae", "x"})
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 5000),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.sampled_from(KEYS),
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6))
def test_any_mapping_gives_a_recipe_or_diagnostics(value: dict[str, Any]) -> None:
    recipe, found = decode(Document(value))
    assert (recipe is None) is bool(found)
    assert all(item.code in FAULTS and item.message for item in found)
    assert len({item.path for item in found if item.code != "DC202"}) == len([i for i in found if i.code != "DC202"])


PIECES = [
    "\n",
    " ",
    "  ",
    ":",
    "- ",
    "{",
    "}",
    "[",
    "]",
    "'",
    '"',
    "#",
    "&a ",
    "*a",
    "!!int ",
    "\t",
    "0x1",
    "null",
    "~",
    "<<: ",
]


@st.composite
def mutated(draw: st.DrawFn) -> str:
    text = FULL
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 12)))
        text = text[:start] + draw(st.sampled_from(["", *PIECES, text[start:end] * 2])) + text[end:]
    return text


def judge(text: str) -> None:
    document, faults = parse(text, "r.yaml")
    if document is None:
        assert faults
        return
    recipe, found = decode(document)
    assert (recipe is None) is bool((faults and document.faulty) or has_errors(found))
    for item in found:
        span = document.position(item.path, key=item.is_key)[1]
        assert 1 <= span.line <= text.count("\n") + 1


@settings(max_examples=200, deadline=None)
@given(mutated())
def test_mutated_recipes_are_judged(text: str) -> None:
    judge(text)


def test_the_words_for_sizes_are_those_of_the_units() -> None:
    with pytest.raises(ValueError, match="two readings"):
        parse_bytes("24G")
