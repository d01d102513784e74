"""Models that no file of the package knows: single files, the hub's cache, facts files, classes that are asked."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dcompile.cli.main import main
from dcompile.core.diagnostics import dotted
from dcompile.driver import compile_recipe
from dcompile.facts import probe
from dcompile.facts.errors import FactsError
from dcompile.facts.facts_file import facts_text, read_facts
from dcompile.facts.folder import component_of_folder, facts_of_folder
from dcompile.facts.hub_cache import cache_folder, revisions_of, snapshot_of
from dcompile.facts.project import file_name, find
from dcompile.facts.registry import known_models, load_model
from dcompile.facts.single_file import facts_of_file
from dcompile.facts.types import ComponentFacts

ROOT = Path(__file__).parents[2]
TINY = ROOT / "recipes" / "quickstart_model"
RECIPE = "version: 1\nmodel: {%s}\ndevices: {kind: cpu}\nrun: {prompts: [a red apple], height: 64, width: 64}\n"


@pytest.fixture(autouse=True)
def _nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def verdict(folder: Path, model: str) -> list[tuple[str, str, str, str]]:
    """Code, path, message and hint of everything that is found in a recipe for a model."""
    file = folder / "recipe.yaml"
    file.write_text(RECIPE % model, encoding="utf-8")
    return [(d.code, dotted(d.path), d.message, d.hint) for d in compile_recipe(file).diagnostics]


def checkpoint(path: Path, tensors: dict[str, tuple[int, ...]], width: int = 2, dtype: str = "BF16") -> Path:
    """A safetensors file of zeros that takes no room on the disk."""
    header, end = {}, 0
    for name, shape in tensors.items():
        size = width
        for dim in shape:
            size *= dim
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)
    return path


@pytest.mark.parametrize(
    ("tensors", "model"),
    [
        ({"model.diffusion_model.w": (859_520_964,), "first_stage_model.w": (9,)}, "stable-diffusion-v1-5"),
        ({"model.diffusion_model.w": (2_567_463_684,), "conditioner.w": (9,)}, "stable-diffusion-xl-base-1.0"),
        ({"model.diffusion_model.w": (2_567_463_684,), "edm_mean": (1,)}, "playground-v2.5-1024px-aesthetic"),
        ({"double_blocks.w": (11_902_391_360,)}, "FLUX.1-Fill-dev"),
        ({"joint_blocks.w": (8_146_280_768,), "text_encoders.w": (9,)}, "stable-diffusion-3.5-large"),
    ],
)
def test_a_single_file_is_the_model_with_its_weights(tmp_path: Path, tensors: Any, model: str) -> None:
    facts = facts_of_file(checkpoint(tmp_path / "mine.safetensors", tensors))
    assert facts.id == "mine"
    assert model in facts.source
    assert facts.components[facts.denoisers[0]].dtype == "bfloat16"
    known = next(name for name in known_models() if name.endswith(f"/{model}"))
    assert facts.tokens == load_model(known).tokens


def test_a_single_file_that_two_models_could_be(tmp_path: Path) -> None:
    file = checkpoint(tmp_path / "mine.safetensors", {"double_blocks.w": (11_901_408_320,)})
    with pytest.raises(FactsError, match=r"FLUX\.1-Kontext-dev` or `black-forest-labs/FLUX\.1-dev"):
        facts_of_file(file)
    found = verdict(tmp_path, "path: mine.safetensors")
    assert [(code, path) for code, path, _, _ in found] == [("DC303", "model.path")]
    assert "like" in found[0][3]
    assert "DC303" not in [code for code, *_ in verdict(tmp_path, "path: mine.safetensors, like: Qwen/Qwen-Image")]


def test_a_single_file_that_no_model_is(tmp_path: Path) -> None:
    checkpoint(tmp_path / "mine.safetensors", {"a": (7,)})
    assert "7 weights" in verdict(tmp_path, "path: mine.safetensors")[0][2]
    (tmp_path / "cut.safetensors").write_bytes(b"\0" * 20)
    assert [code for code, *_ in verdict(tmp_path, "path: cut.safetensors")] == ["DC316"]
    assert "missing" in verdict(tmp_path, "path: absent.safetensors")[0][2]


def cached(cache: Path, model_id: str, source: Path, commit: str = "0123abc") -> Path:
    repository = cache / f"models--{model_id.replace('/', '--')}"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(commit)
    (repository / "snapshots").mkdir()
    (repository / "snapshots" / commit).symlink_to(source, target_is_directory=True)
    return repository / "snapshots" / commit


@pytest.mark.parametrize(
    ("variable", "below"), [("HF_HUB_CACHE", "."), ("HUGGINGFACE_HUB_CACHE", "."), ("HF_HOME", "hub")]
)
def test_hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, below: str) -> None:
    monkeypatch.setenv(variable, str(tmp_path / "hf"))
    assert cache_folder() == tmp_path / "hf" / below
    snapshot = cached(tmp_path / "hf" / below, "our-team/emoji", TINY)
    assert snapshot_of("our-team/emoji") == snapshot_of("our-team/emoji", "0123abc") == snapshot
    assert snapshot_of("our-team/emoji", "other") is None
    assert (revisions_of("our-team/emoji"), revisions_of("our-team/none"), revisions_of("..")) == (("main",), (), ())
    ((code, _, _, hint),) = verdict(tmp_path, "id: our-team/emoji, revision: other")
    assert (code, "has `main` of it, not `other`" in hint) == ("DC301", True)
    assert not [code for code, *_ in verdict(tmp_path, "id: our-team/emoji") if code.startswith("DC3")]


def test_hub_cache_in_the_usual_place(tmp_path: Path) -> None:
    assert cache_folder() == tmp_path / "cache" / "huggingface" / "hub"
    for name in ("a", "../a", "a/../b", "a/b/c", "a\0/b", ""):
        assert snapshot_of(name) is None
    assert snapshot_of("a/b", "../../x") is None


def test_a_copy_in_the_cache_that_is_not_whole(tmp_path: Path) -> None:
    (tmp_path / "half").mkdir()
    cached(cache_folder(), "our-team/half", tmp_path / "half")
    found = verdict(tmp_path, "id: our-team/half")
    assert [(code, path) for code, path, _, _ in found] == [("DC303", "model.id")]


def test_an_unknown_model_says_how_to_add_it(tmp_path: Path) -> None:
    found = verdict(tmp_path, "id: our-team/absent")
    assert [(code, path) for code, path, _, _ in found] == [("DC301", "model.id")]
    assert "dcompile models add" in found[0][3]


@pytest.fixture
def add(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def call(*arguments: str) -> tuple[int, str, str]:
        code = main(["models", "add", *arguments])
        done = capsys.readouterr()
        return code, done.out, done.err

    return call


def test_models_add_writes_a_file_that_recipes_below_find(tmp_path: Path, add: Any) -> None:
    (tmp_path / ".git").mkdir()
    code, out, _ = add(str(TINY), "--id", "our-team/emoji")
    assert code == 0
    written = tmp_path / ".dcompile" / "models" / "our-team--emoji.json"
    assert ".dcompile/models/our-team--emoji.json" in out
    facts, direct = read_facts(written), facts_of_folder(TINY)
    assert facts.components == direct.components
    assert (facts.tokens, facts.defaults, facts.guidance) == (direct.tokens, direct.defaults, direct.guidance)
    below = tmp_path / "recipes" / "deep"
    below.mkdir(parents=True)
    assert find("our-team/emoji", below) == written
    for model in ("id: our-team/emoji", "path: /nowhere, like: our-team/emoji"):
        assert not [code for code, *_ in verdict(below, model) if code.startswith("DC3")]
    assert "did you mean `our-team/emoji`" in verdict(below, "id: our-team/emojis")[0][3]
    assert main(["models"]) == 0


def test_without_a_repository_only_the_own_folder_counts(tmp_path: Path, add: Any) -> None:
    assert add(str(TINY), "--id", "our-team/emoji")[0] == 0
    (tmp_path / "below").mkdir()
    assert find("our-team/emoji", tmp_path) is not None
    assert find("our-team/emoji", tmp_path / "below") is None


def test_models_add_of_a_single_file_and_of_the_cache(tmp_path: Path, add: Any) -> None:
    checkpoint(tmp_path / "mine.safetensors", {"model.diffusion_model.w": (859_520_964,)})
    assert add("mine.safetensors")[0] == 0
    assert read_facts(tmp_path / ".dcompile" / "models" / "mine.json").family == "sd"
    cached(cache_folder(), "our-team/emoji", TINY)
    assert add("our-team/emoji", "--out", "facts/our-team--emoji.json")[0] == 0
    assert read_facts(tmp_path / "facts" / "our-team--emoji.json").id == "our-team/emoji"


def test_models_add_that_cannot(tmp_path: Path, add: Any) -> None:
    for arguments, says in (
        (["our-team/absent"], "not in the hub's cache"),
        ([str(tmp_path)], "model_index.json"),
        ([str(TINY), "--id", "a b"], "is no id"),
        ([str(TINY), "--id", "a/b", "--out", "other.json"], "a--b.json"),
    ):
        code, out, err = add(*arguments)
        assert (code, out) == (2, "")
        assert says in err
    assert not (tmp_path / ".dcompile").exists()


def test_a_known_id_cannot_be_changed_by_a_file(tmp_path: Path) -> None:
    folder = tmp_path / ".dcompile" / "models"
    folder.mkdir(parents=True)
    (folder / file_name("Qwen/Qwen-Image")).write_text("{}")
    assert not [code for code, *_ in verdict(tmp_path, "id: Qwen/Qwen-Image") if code.startswith("DC3")]


def damaged() -> list[tuple[str, Callable[[dict[str, Any]], object]]]:
    def parameter(data: dict[str, Any], value: object) -> None:
        data["components"]["transformer"]["parameters"] = [value]

    return [
        ("unknown key", lambda data: data.update(extra=1)),
        ("no id", lambda data: data.pop("id")),
        ("other id", lambda data: data.update(id="our-team/other")),
        ("other format", lambda data: data.update(format_version=2)),
        ("huge shape", lambda data: parameter(data, ["w", [2**40], 1])),
        ("negative", lambda data: parameter(data, ["w", [-1], 1])),
        ("a text for a number", lambda data: parameter(data, ["w", ["8"], 1])),
        ("a boolean for a number", lambda data: parameter(data, ["w", [True], 1])),
        ("stack without a star", lambda data: parameter(data, ["w", [8], 3])),
        ("endless stack", lambda data: parameter(data, ["w.*", [8], 10**9])),
        ("code for a name", lambda data: data.update(pipeline="__import__('os')")),
        ("no such denoiser", lambda data: data.update(denoisers=["absent"])),
        ("token of no size", lambda data: data["tokens"].update(spatial=0)),
        ("no components", lambda data: data.update(components={})),
        ("sizes that are missing", lambda data: data.update(conditions={"kind": "snapped"})),
    ]


@pytest.mark.parametrize(("what", "damage"), damaged(), ids=[name for name, _ in damaged()])
def test_damaged_facts_files_are_findings(tmp_path: Path, what: str, damage: Callable[..., object]) -> None:
    folder = tmp_path / ".dcompile" / "models"
    folder.mkdir(parents=True)
    data = json.loads(facts_text(facts_of_folder(TINY)))
    data["id"] = "our-team/emoji"
    damage(data)
    (folder / "our-team--emoji.json").write_text(json.dumps(data))
    found = verdict(tmp_path, "id: our-team/emoji")
    assert [(code, path) for code, path, _, _ in found] == [("DC312", "model.id")], what
    assert "our-team--emoji.json" in found[0][2]


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff\xfe", b"null", b"[" * 100_000, b" " * 4_000_001])
def test_facts_files_that_are_no_json(tmp_path: Path, text: bytes) -> None:
    folder = tmp_path / ".dcompile" / "models"
    folder.mkdir(parents=True)
    (folder / "our-team--emoji.json").write_bytes(text)
    assert [code for code, *_ in verdict(tmp_path, "id: our-team/emoji")] == ["DC312"]


def test_every_known_model_survives_a_facts_file(tmp_path: Path) -> None:
    for name in known_models():
        file = tmp_path / file_name(name)
        file.write_text(facts_text(load_model(name)), encoding="utf-8")
        assert read_facts(file) == load_model(name)


@pytest.fixture
def strange(tmp_path: Path) -> Path:
    """The quickstart model with a denoiser of a class that no data file covers."""
    for part in TINY.iterdir():
        if part.name not in ("model_index.json", "transformer") and part.is_dir():
            (tmp_path / part.name).symlink_to(part, target_is_directory=True)
    index = json.loads((TINY / "model_index.json").read_text())
    index["transformer"] = ["diffusers", "BrandNewTransformer2DModel"]
    (tmp_path / "model_index.json").write_text(json.dumps(index))
    (tmp_path / "transformer").mkdir()
    for file in (TINY / "transformer").iterdir():
        (tmp_path / "transformer" / file.name).symlink_to(file)
    return tmp_path


ENTRY = {
    "library": "diffusers",
    "tensor_plan": [],
    "sizes": {},
    "context_plan": True,
    "context_splits_text": False,
    "heads": "num_attention_heads",
    "no_split": ["Block"],
    "repeated_blocks": False,
    "float32": [],
    "unquantized": {},
    "blocks": None,
    "buffers": [],
    "config_defaults": {},
}


def test_a_class_that_cannot_be_asked_is_a_warning(strange: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "probe_class", lambda name, config: None)
    assert facts_of_folder(strange).components["transformer"].is_guessed
    found = verdict(strange, "path: .")
    assert [(code, path) for code, path, _, _ in found if code.startswith("DC3")] == [("DC314", "model.path")]
    assert main(["models", "add", str(strange)]) == 2


def test_a_class_is_asked_once(strange: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def ask(question: str) -> str:
        asked.append(json.loads(question)["class"])
        return json.dumps(ENTRY)

    def read() -> ComponentFacts:
        return component_of_folder(strange / "transformer", "BrandNewTransformer2DModel")

    monkeypatch.setattr(probe, "version", lambda name: "1.0")
    monkeypatch.setattr(probe, "_ask", ask)
    for _ in range(2):
        transformer = read()
        assert transformer.context_plan
        assert transformer.no_split == ("Block",)
        assert not transformer.is_guessed
    assert asked == ["BrandNewTransformer2DModel"]
    monkeypatch.setattr(probe, "version", lambda name: "2.0")
    read()
    assert len(asked) == 2
    for kept in probe.cache_folder().iterdir():
        kept.write_text("[]")
    read()
    assert len(asked) == 3


def test_a_class_that_diffusers_has_not_is_asked_once_too(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(probe, "version", lambda name: "1.0")
    monkeypatch.setattr(probe, "_ask", lambda question: asked.append(question) or "null")
    assert probe.probe_class("NoSuchModel", {}) is probe.probe_class("NoSuchModel", {}) is None
    assert len(asked) == 1


def test_without_diffusers_no_class_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise probe.PackageNotFoundError(name)

    monkeypatch.setattr(probe, "version", absent)
    assert probe.probe_class("FluxTransformer2DModel", {}) is None


@pytest.mark.slow
def test_the_real_probe_answers_as_the_data_file_does() -> None:
    pytest.importorskip("diffusers")
    from dcompile.facts.folder import known_classes

    config = json.loads((TINY / "transformer" / "config.json").read_text())
    found = probe.probe_class("FluxTransformer2DModel", config)
    known = dict(known_classes()["FluxTransformer2DModel"])
    del known["family"]
    assert found == known
    assert probe.probe_class("NoSuchTransformer2DModel", {}) is None
