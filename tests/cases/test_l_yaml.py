"""L: the YAML file itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from dcompile.cli.main import main
from dcompile.core.diagnostics import Severity
from dcompile.recipe.sections import LISTS, SECTIONS, fields
from dcompile.source.parse import parse

ROOT = Path(__file__).parents[2]
HEAD = "version: 1\nmodel: {id: black-forest-labs/FLUX.1-dev}\ndevices: {gpu: h100-sxm-80gb}\n"
FOUR = HEAD.replace("80gb}", "80gb, per_node: 4}")
RUN = "run: {prompts: [a red fox], height: 1024, width: 1024}\n"


def lines(compiled: Callable, text: str, files: dict[str, str] | None = None) -> list[tuple[str, int]]:
    """Code and line of every finding."""
    from dcompile.cli.render import locate

    done = compiled(text, files)
    found = locate(done.diagnostics, done.document, str(done.file), strict=False)
    return [(finding.diagnostic.code, finding.span.line) for finding in found]


def test_case_134_numbers_with_an_exponent(compiled: Callable, verdict: Callable) -> None:
    """hiyouga/LlamaFactory#4014: `1e-5` was text. A number is what YAML 1.2 says; a quoted one is refused."""
    for text, value in (("3e0", 3.0), ("1e-5", 1e-5), ("1E+1", 10.0), (".5", 0.5), ("3", 3)):
        done = compiled(HEAD + f"run: {{prompts: [a], guidance: {text}}}\n")
        assert done.is_valid
        assert done.recipe.run.guidance == value
    (found,) = verdict(HEAD + "run: {prompts: [a], guidance: '3.5'}\n")
    assert (found.code, found.path) == ("DC203", "run.guidance")


def test_case_136_quoted_false(verdict: Callable) -> None:
    """NVIDIA/xr-ai#276: "false" in quotes switched a feature on. Text is no boolean; the hint says what to write."""
    (found,) = verdict(HEAD + RUN + 'components: {transformer: {compile: "false"}}\n')
    assert (found.code, found.severity, found.path) == ("DC203", "error", "components.transformer.compile")
    assert "true or false" in found.message
    assert found.hint == "write `compile: false`"


def test_case_137_false_is_a_value(compiled: Callable) -> None:
    """vllm-project/vllm#51401: an explicit false was dropped. A key has three states: true, false, not given."""
    states = {}
    for text in ("true", "false", None):
        own = f"components: {{vae: {{tiling: {text}}}}}\n" if text else ""
        done = compiled(HEAD + RUN + own)
        assert done.is_valid
        states[text] = done.recipe.components["vae"].tiling if text else done.recipe.components.get("vae")
    assert states == {"true": True, "false": False, None: None}


@pytest.mark.parametrize("value", ["3", "3.5", "true", "x", "[1]", "{seed: 3}"])
def test_case_138_the_order_of_arguments(value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """vllm-project/vllm#9499, #8947: a file translated to flags. Overrides are the same on both sides of the file."""
    (tmp_path / "r.yaml").write_text(HEAD + RUN, encoding="utf-8")
    said = []
    for order in (["r.yaml", "--set", f"run.steps={value}"], ["--set", f"run.steps={value}", "r.yaml"]):
        arguments = [str(tmp_path / item) if item == "r.yaml" else item for item in order]
        said.append((main(["check", "--format", "json", *arguments]), capsys.readouterr().out))
    assert said[0] == said[1]
    assert said[0][0] == (0 if value == "3" else 1)


@pytest.mark.parametrize("pattern", SECTIONS, ids=lambda pattern: ".".join(pattern) or "recipe")
def test_case_140_unknown_keys_at_every_depth(pattern: tuple[str, ...], compiled: Callable) -> None:
    """aws-solutions-library-samples/…document-processing…#1134: a nested typo was dropped. Every section is closed."""
    wrong = fields(SECTIONS[pattern])[0] + "z"
    value: object = {wrong: 1}
    for index, part in enumerate(reversed(pattern)):
        name = "vae" if part == "*" else part
        is_list = part == "*" and pattern[len(pattern) - index - 2] in LISTS
        value = [value] if is_list else {name: value}
    base = {"version": 1, "model": {"id": "black-forest-labs/FLUX.1-dev"}, "run": {"prompts": ["a"]}}
    for name, inner in value.items():  # type: ignore[attr-defined]
        base[name] = {**base.get(name, {}), **inner} if isinstance(inner, dict) else inner  # type: ignore[dict-item]
    found = compiled(yaml.safe_dump(base)).diagnostics
    if pattern == ("model", "scheduler"):  # open: settings of the scheduler's class, a rule's business
        assert not any(item.code == "DC201" for item in found)
        return
    unknown = [item for item in found if item.code == "DC201"]
    assert [item.path[-1] for item in unknown] == [wrong]
    assert wrong in unknown[0].message
    assert unknown[0].hint


def test_case_140_ulyses(verdict: Callable) -> None:
    """The report's own recipe."""
    (found,) = verdict(FOUR + RUN + "parallel: {context: {ulyses: 4}}\n")
    assert (found.code, found.path, found.hint) == ("DC201", "parallel.context.ulyses", "did you mean `ulysses`?")


def test_case_141_a_key_that_is_like_nothing(verdict: Callable) -> None:
    """skypilot-org/skypilot#1020: "invalid:" and nothing. The key is named, and the known ones where none is near."""
    (found,) = verdict(HEAD + RUN + "output: {zone: x}\n")
    assert (found.code, found.path) == ("DC201", "output.zone")
    assert "`zone`" in found.message
    assert found.hint == "known keys: dir, name, format, fps"


def test_case_142_broken_yaml_and_missing_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """skypilot-org/skypilot#1175, #187: a broken or missing file was run as a command. It is refused, in one line."""
    file = tmp_path / "recipe.yaml"
    file.write_text("version: 1\n  model: x\n", encoding="utf-8")
    assert main(["check", str(file)]) == 1
    assert capsys.readouterr().out.startswith(f"{file}:2:3: error DC101 ")
    assert main(["check", str(tmp_path / "none.yaml")]) == 2
    assert capsys.readouterr().err == f"dcompile: {tmp_path / 'none.yaml'}: No such file or directory\n"


def test_case_144_duplicate_keys(compiled: Callable, verdict: Callable) -> None:
    """yaml/pyyaml#165: the second value won silently. Both lines are named; overriding a base's key is no duplicate."""
    text = HEAD + RUN + "parallel: {tensor: 2}\noutput: {dir: x}\nparallel: {tensor: 4}\n"
    (found,) = verdict(text)
    assert (found.code, found.path) == ("DC111", "parallel")
    assert "it is already on line 5" in found.message
    assert lines(compiled, text) == [("DC111", 7)]
    assert verdict("extends: base.yaml\nrun: {height: 512}\n", {"base.yaml": HEAD + RUN}) == []


def test_case_145_a_newer_version(verdict: Callable) -> None:
    """hiyouga/LlamaFactory#7412: unknown keys after a version mismatch. The version alone is the finding."""
    (found,) = verdict("version: 3\nmodel: {hub: x}\nnew_section: {a: 1}\n")
    assert (found.code, found.path) == ("DC204", "version")
    assert found.hint == "upgrade dcompile, or write `version: 1`"


def test_case_146_every_value_has_an_origin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """huggingface/accelerate#160: a hidden default file won. There is none: each value is the file's or the default."""
    for name in ("HOME", "XDG_CONFIG_HOME", "ACCELERATE_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path))
    for name in (".dcompile.yaml", "dcompile.yaml", "default_config.yaml"):
        (tmp_path / name).write_text("run: {steps: 99}\n", encoding="utf-8")
    (tmp_path / "r.yaml").write_text(HEAD + RUN, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert main(["config", "--origins", "r.yaml"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert all(
        line.rpartition("  # ")[2] == "default" or line.rpartition("  # ")[2].startswith("r.yaml:") for line in said
    )
    assert not any("99" in line for line in said)


def test_case_148_a_word_for_a_number(verdict: Callable) -> None:
    """NVIDIA/Model-Optimizer#318: `num_processes: gpu` of another launcher. A number is wanted and said."""
    (found,) = verdict("version: 1\nmodel: {id: black-forest-labs/FLUX.1-dev}\ndevices: {per_node: gpu}\n" + RUN)
    assert (found.code, found.path) == ("DC203", "devices.per_node")
    assert "a whole number" in found.message


def test_case_149_tabs(compiled: Callable, verdict: Callable) -> None:
    """moraes/config#1: the parser printed the invisible tab. It is named in words, also where YAML lets it pass."""
    for text in (HEAD + "run:\n\tprompts: [a]\n", HEAD + "run:\tx\n", HEAD + "run: {}\t# x\n"):
        assert lines(compiled, text)[0] == ("DC106", 4 + text.count("\n\t"))
        found = verdict(text)[0]
        assert "a tab stands" in found.message
        assert "spaces" in found.message + found.hint
        assert "\t" not in found.message


def test_case_150_byte_order_marks_and_code_pages() -> None:
    """ScrollPrize/villa#1524: a BOM became part of the first key. UTF-8 is read with or without; others are refused."""
    text = HEAD + "run: {prompts: [naïve café 猫]}\n"
    for data in (text.encode(), text.encode("utf-8-sig")):
        document, found = parse(data, "r.yaml")
        assert found == ()
        assert document is not None
        assert document.value["version"] == 1
        assert document.value["run"]["prompts"] == ["naïve café 猫"]
    assert [item.code for item in parse(text.encode("utf-16"), "r.yaml")[1]] == ["DC103"]
    (item,) = parse(text.replace("猫", "").encode("latin-1"), "r.yaml")[1]
    assert item.code == "DC103"
    assert item.span is not None
    assert item.span.line == 4
    assert f"offset {text.encode('utf-8').index(b'na') + 2}" in item.message


def test_case_152_one_typo_is_one_error(verdict: Callable) -> None:
    """ait-aecid/logdata-anomaly-miner#497: a union reported every branch. One key, one finding."""
    (found,) = verdict(HEAD + RUN + "components: {vae: {tile: yes}}\n")
    assert (found.code, found.path, found.hint) == ("DC201", "components.vae.tile", "did you mean `tiling`?")
    (found,) = verdict(HEAD + RUN + "components: {vae: {tiling: yes}}\n")
    assert (found.code, found.hint) == ("DC203", "write `tiling: true`")
    for value in ("{degree: 2, size: 2}", "{degree: two}", "[2]", "2.0", "'2'", "{}"):
        assert len(verdict(FOUR + RUN + f"parallel: {{tensor: {value}}}\n")) == 1, value


def test_case_153_alias_bombs(quickly: Callable[..., Any]) -> None:
    """yaml/pyyaml#235: 300 bytes became 269 million characters. An alias is refused where it stands, not followed."""
    text = "a: &a [x, x, x, x, x, x, x, x, x]\n"
    text += "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True))
    document, found = quickly(lambda: parse(text, "r.yaml"))
    assert {item.code for item in found} == {"DC113"}
    assert document is not None
    assert len(repr(document.value)) < 2000


def test_case_154_merging_is_deep(compiled: Callable, verdict: Callable) -> None:
    """adrienverge/yamllint#175: `<<` merges one level only. It is refused; `extends` keeps the rest of a plan."""
    base = HEAD.replace("}\ndevices: {", "}\ndevices: {per_node: 4, ") + RUN + "parallel: {context: {ulysses: 4}}\n"
    done = compiled("extends: base.yaml\nparallel: {data: 1}\n", {"base.yaml": base})
    assert done.is_valid
    assert (done.recipe.parallel.context.ulysses, done.recipe.parallel.data) == (4, 1)
    (found,) = verdict("extends: base.yaml\nparallel: {seed: 1}\n", {"base.yaml": base})
    assert (found.code, found.path) == ("DC201", "parallel.seed")
    merged = HEAD + RUN + "parallel:\n  <<: {data: 1}\n  <<: {tensor: 1}\n"
    assert lines(compiled, merged) == [("DC114", 6), ("DC114", 7)]
    assert "extends" in verdict(merged)[0].hint


def test_case_156_several_documents(compiled: Callable, verdict: Callable) -> None:
    """pre-commit/pre-commit#635: only the first document was read. The second is refused, at its line."""
    text = HEAD + RUN + "---\n" + HEAD + RUN
    assert lines(compiled, text) == [("DC108", 5)]
    assert verdict("---\n" + HEAD + RUN + "...\n") == []


@pytest.mark.parametrize("value", ["!env HOME", "!include x.yaml", "!!python/object/apply:os.system [ls]", "!!str x"])
def test_case_157_tags(value: str, compiled: Callable) -> None:
    """pre-commit/pre-commit-hooks#567: files with tags fail the stock hook. Recipes have none."""
    assert lines(compiled, HEAD + RUN + f"output: {{dir: {value}}}\n") == [("DC115", 5)]


def test_case_157_recipes_pass_the_stock_hook() -> None:
    """What we ship is read by any YAML reader, to the same keys."""
    for file in sorted((ROOT / "recipes").glob("*.yaml")):
        document, found = parse(file.read_bytes(), str(file))
        assert found == ()
        assert document is not None
        assert list(yaml.safe_load(file.read_text(encoding="utf-8"))) == list(document.value)


def test_case_158_variables(compiled: Callable, verdict: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    """docker/compose#12202: an unset variable became blank. It is refused; a default may be empty; prompts are left."""
    monkeypatch.delenv("MODELS", raising=False)
    head = "version: 1\nmodel:\n  path: %s\n  like: black-forest-labs/FLUX.1-dev\n"
    (found,) = verdict(HEAD + RUN + "output: {dir: ${MODELS}/x}\n")
    assert (found.code, found.hint) == ("DC101", "put the text in quotes: '${NAME}'")
    (found,) = verdict(head % "${MODELS}/flux" + RUN)
    assert (found.code, found.path) == ("DC126", "model.path")
    assert found.hint == "set it, or give a default: ${MODELS:-...}"
    for text, path in (("'${MODELS:-}flux'", "flux"), ("'${MODELS:-/m}/flux'", "/m/flux")):
        assert compiled(head % text + RUN).recipe.model.path == path
    monkeypatch.setenv("MODELS", "x\ndtype: float16\nid: y")
    assert compiled(head % "${MODELS}" + RUN).recipe.model.path == "x\ndtype: float16\nid: y"
    done = compiled(HEAD + "run: {prompts: ['a $5 bill', '${MODELS}', '$$']}\n")
    assert done.recipe.run.prompts == ("a $5 bill", "${MODELS}", "$$")
    assert [found.code for found in verdict(head % "'${MODELS'" + RUN)] == ["DC128"]
    assert [found.code for found in verdict(HEAD + "run: {prompts: [a], seed: '${MODELS}'}\n")] == ["DC203"]


def test_case_160_any_argument_of_the_call(compiled: Callable, verdict: Callable) -> None:
    """corrscope/corrscope#160: the schema was stricter than the engine. `run.args` takes what the call takes."""
    done = compiled(HEAD + "run: {prompts: [a], args: {max_sequence_length: 256}}\n")
    assert done.is_valid
    assert done.plan_json["program"]["run"]["call"]["max_sequence_length"] == 256
    (found,) = verdict(HEAD + "run: {prompts: [a], args: {max_sequence_lenght: 256}}\n")
    assert (found.code, found.path) == ("DC306", "run.args.max_sequence_lenght")
    assert "did you mean `max_sequence_length`?" in found.hint
    assert found.severity == Severity.ERROR.value
