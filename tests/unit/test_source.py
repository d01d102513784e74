"""The text of a recipe: what is refused, with which code and where."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dcompile.core.diagnostics import Diagnostic, Severity, Span
from dcompile.core.safe_text import redact
from dcompile.source import scalars
from dcompile.source.document import Document
from dcompile.source.faults import FAULTS
from dcompile.source.overrides import apply_overrides
from dcompile.source.parse import parse
from dcompile.source.read import read
from hypothesis import example, given, settings
from hypothesis import strategies as st


def places(found: tuple[Diagnostic, ...]) -> list[tuple[str, int, int]]:
    spans = [(item.code, item.span or Span(0, 0, 0, 0)) for item in found]
    return [(code, span.line, span.column) for code, span in spans]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [("DC109", 1, 1)]),
        ("# only a comment\n", [("DC109", 1, 1)]),
        ("---\n", [("DC109", 1, 1)]),
        ("{}\n", [("DC109", 1, 1)]),
        ("a:1\n", [("DC110", 1, 1)]),
        ("[1]\n", [("DC110", 1, 1)]),
        ("a: 1\na: 2\n", [("DC111", 2, 1)]),
        ("a: {b: 1, b: 2}\n", [("DC111", 1, 11)]),
        ("a: 1\nb: 2\na: 3\nb: 4\n", [("DC111", 3, 1), ("DC111", 4, 1)]),
        ("null: 1\n", [("DC112", 1, 1)]),
        ("~: 1\n", [("DC112", 1, 1)]),
        ("? [a]\n: 1\n", [("DC112", 1, 3)]),
        ("a: {{ x }}\n", [("DC119", 1, 5)]),
        ("a: &x 1\nb: *x\n", [("DC113", 1, 4), ("DC113", 2, 4)]),
        ("a: &a [*a]\n", [("DC113", 1, 4), ("DC113", 1, 8)]),
        ("a: {}\nb:\n  <<: {c: 1}\n", [("DC114", 3, 3)]),
        ("a: !!python/object:os.system x\n", [("DC115", 1, 4)]),
        ("a: !!str 1\n", [("DC115", 1, 4)]),
        ("a: ! 1\n", [("DC115", 1, 4)]),
        ("a: 1\n---\nb: 2\n", [("DC108", 2, 1)]),
        ("%YAML 1.2\n---\na: 1\n", [("DC116", 1, 1)]),
        ("\ta: 1\n", [("DC106", 1, 1)]),
        ("a:\n\tb: 1\n", [("DC106", 2, 1)]),
        ("a:\t1\n", [("DC106", 1, 3)]),
        ("a: 1\t\n", [("DC106", 1, 5)]),
        ("a: [1,\t2]\n", [("DC106", 1, 7)]),
        ("a: 010\n", [("DC117", 1, 4)]),
        ("a: 0012345\n", [("DC117", 1, 4)]),
        ("a: 0x1F\n", [("DC117", 1, 4)]),
        ("a: 0o17\n", [("DC117", 1, 4)]),
        ("a: 0b11\n", [("DC117", 1, 4)]),
        ("a: 1_000\n", [("DC117", 1, 4)]),
        ("a: .inf\n", [("DC118", 1, 4)]),
        ("a: -.INF\n", [("DC118", 1, 4)]),
        ("a: .NaN\n", [("DC118", 1, 4)]),
        ("a: 1e999\n", [("DC118", 1, 4)]),
        ("a: 9223372036854775808\n", [("DC118", 1, 4)]),
        ("a: " + "9" * 5000 + "\n", [("DC118", 1, 4)]),
        ("a: 0x" + "f" * 5000 + "\n", [("DC117", 1, 4)]),
        ("a: 1\nb:\n<<<<<<< HEAD\nc: 1\n=======\nc: 2\n>>>>>>> x\n", [("DC105", 3, 1)]),
        ("a: x\x07y\n", [("DC104", 1, 5)]),
        ("a: x\x00y\n", [("DC104", 1, 5)]),
        ('a: "\\0"\n', [("DC104", 1, 4)]),
        ("a: x\ufeffy\n", [("DC104", 1, 5)]),
        ("a: 1\n\u00a0b: 1\n", [("DC104", 2, 1)]),
        ("a: b: c\n", [("DC101", 1, 5)]),
        ("a: [1\n", [("DC101", 1, 4)]),
        ("a: 'x\n", [("DC101", 1, 4)]),
        ("a: @x\n", [("DC101", 1, 4)]),
    ],
)
def test_refused(text: str, expected: list[tuple[str, int, int]]) -> None:
    assert places(parse(text, "r.yaml")[1]) == expected


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("a: 1\n  b: 2\n", (2, 3), "this key lies deeper than line 1"),
        ("r:\n  a: x # why: so\n\n    b: 2\n", (4, 5), "the indentation fits no key above it"),
        ("m:\n  id:owner/name\n  b: 2\n", (2, 5), "`id:` has no space"),
        ("m:\n  b: 2\n  steps:28\n", (3, 8), "`steps:` has no space"),
        ("m:\n  b: 2\n  steps 28\n  c: 3\n", (3, 3), "a key has no `:`"),
        ("m\n  b: 2\n", (1, 1), "a key has no `:`"),
        ("a: ['it's a fox']\n", (1, 9), "behind its closing '"),
        ('a: ["x" and "y"]\n', (1, 9), "a `[` or `{` is not closed"),
        ("a: {b: 1\n\n", (1, 4), "this `{` is not closed"),
        ('a: ["x\nb: 1\n', (1, 5), "a quote is not closed"),
        ("a: http://x\n  b: 1\n", (2, 3), "this key lies deeper than line 1"),
        ("a: [*, b]\n", (1, 6), "text cannot start with `&` or `*`"),
        ("a: |x\n  b\n", (1, 5), "text stands on the line of a `|` or `>`"),
        ("a: {b:, c: 1}\n", (1, 6), "a `:` stands where none can"),
        ("a: ? b\n", (1, 4), "text cannot start with `? `"),
        ("a: [x, |y]\n", (1, 8), "text cannot start with this character"),
        ("a: ]\n", (1, 4), "a value is missing"),
        ("'a'\nb: 1\n", (2, 1), "the text goes on after a whole value"),
        ("a:\n  b: {c:1}-{d}\n", (2, 11), "text goes on behind a closing }"),
        ("a: [b] c\n", (1, 8), "text goes on behind a closing ]"),
        ("a:\n- 'b' c\n", (2, 7), "text goes on behind a closing '"),
        ("a: b: c\n", (1, 5), "a `:` stands where no key can be"),
        ("a: 0o17\n", (1, 4), "is an octal number"),
    ],
)
def test_the_cause_is_named_where_it_lies(text: str, place: tuple[int, int], words: str) -> None:
    (found,) = parse(text, "r.yaml")[1]
    assert found.span is not None
    assert (found.span.line, found.span.column) == place
    assert words in found.message
    assert found.hint


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("a: 1".encode("utf-16"), [("DC103", 1, 1)]),
        ("a: 1".encode("utf-16-le"), [("DC103", 1, 1)]),
        ("a: 1".encode("utf-32"), [("DC103", 1, 1)]),
        (b"a: 1\nb: \xff\n", [("DC103", 2, 4)]),
        (b"a: " + b"x" * (1 << 20), [("DC102", 1, 1)]),
    ],
)
def test_refused_bytes(data: bytes, expected: list[tuple[str, int, int]]) -> None:
    document, found = parse(data, "r.yaml")
    assert document is None
    assert places(found) == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("Yes", "Yes"),
        ("on", "on"),
        ("true", True),
        ("FALSE", False),
        ("~", None),
        ("", None),
        ("1e-5", 1e-5),
        ("1e3", 1000.0),
        ("+.5", 0.5),
        ("-12", -12),
        ("0", 0),
        ("0.5", 0.5),
        ("9223372036854775807", 2**63 - 1),
        ("16:9", "16:9"),
        ("12:30:45", "12:30:45"),
        ("2024-01-02", "2024-01-02"),
        ("2024-13-45", "2024-13-45"),
        ("1234567", 1234567),
        ("12ab", "12ab"),
        ("a_1", "a_1"),
        ("'010'", "010"),
        ("=", "="),
        ("[1, 2.5, x]", [1, 2.5, "x"]),
        ("'x\ty'  # c\tc", "x\ty"),
        ("Bonjour\u00a0!", "Bonjour\u00a0!"),
    ],
)
def test_scalars(text: str, value: object) -> None:
    document, found = parse(f"a: {text}\n", "r.yaml")
    assert found == ()
    assert document is not None
    assert document.value == {"a": value}
    assert type(document.value["a"]) is type(value)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("010", "write 10,"),
        ("0x1F", "write 31,"),
        ("0b11", "write 3,"),
        ("1_000", "write 1000,"),
        ("-007", "write -7,"),
    ],
)
def test_the_hint_is_the_plain_decimal(text: str, hint: str) -> None:
    fault = scalars.resolve(text)[1]
    assert fault is not None
    assert fault.hint.startswith(hint)


def test_keys_are_text() -> None:
    document, found = parse("1: a\ntrue: b\non: c\n1.5: d\n", "r.yaml")
    assert found == ()
    assert document is not None
    assert document.value == {"1": "a", "true": "b", "on": "c", "1.5": "d"}


@pytest.mark.parametrize("text", ["\ufeffa: 1\n", "a: 1\r\n", "---\na: 1\n...\n", "a: 1"])
def test_accepted_dress(text: str) -> None:
    for form in (text, text.encode()):
        document, found = parse(form, "r.yaml")
        assert found == ()
        assert document is not None
        assert document.value == {"a": 1}
        assert document.position(("a",)) == ("r.yaml", document.values[("a",)])


def test_positions() -> None:
    document, _ = parse("# top\nrun:\n  prompts: [é, 'two']\n  steps:\n", "r.yaml")
    assert document is not None
    assert document.position(("run", "prompts", 1)) == ("r.yaml", Span(3, 16, 3, 21))
    assert document.position(("run", "prompts"), key=True) == ("r.yaml", Span(3, 3, 3, 10))
    assert document.position(("run", "missing")) == ("r.yaml", Span(2, 1, 2, 4))
    assert document.position(("missing",)) == ("r.yaml", Span(2, 1, 2, 5))
    assert document.texts[("run", "steps")] == ""


@pytest.mark.parametrize(
    "text",
    [
        "a: " + "[" * 100_000,
        "{" * 100_000,
        "- " * 100_000,
        "? " * 100_000,
        "a: " + "[" * 51 + "]" * 51,
        "".join(" " * i + f"k{i}:\n" for i in range(1000)),
        "[{" * 50_000,
        "[\n" * 100_000,
    ],
)
def test_deep_nesting_is_refused_quickly(text: str, quickly: Callable[..., Any]) -> None:
    document, found = quickly(lambda: parse(text, "r.yaml"))
    assert document is None
    assert found[-1].code == "DC107"


@pytest.mark.parametrize(
    "text",
    [
        "a: [" + "x, " * 300000 + "]",
        "a: # " + "\t#" * 400000,
        "'" + "\n\t" * 300000,
        "a: \t\n" * 200000,
        "x: y\n" * 200000,
        "? " * 500000,
        "a: x: " * 100000,
        "a: " + "b\n " * 300000,
    ],
)
def test_hostile_files_cost_little(text: str, quickly: Callable[..., Any]) -> None:
    document, found = quickly(lambda: parse(text, "r.yaml"))
    assert document is not None or found


def test_brackets_in_text_are_not_nesting() -> None:
    assert parse("a: '" + "[" * 200 + "'\nb: |\n  " + "{" * 200 + "\n", "r.yaml")[1] == ()


def test_a_faulty_value_is_marked() -> None:
    document, _ = parse("run: {steps: 010, seed: 1}\n", "r.yaml")
    assert document is not None
    assert document.is_faulty(("run", "steps"))
    assert not document.is_faulty(("run", "seed"))


def written(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return folder


def test_extends_merges_and_says_where_from(tmp_path: Path) -> None:
    folder = written(
        tmp_path,
        base="model: {id: a/b}\nrun:\n  steps: 3\n  prompts: [a, b]\n  seed: 1\n",
        x__r="extends: ../base.yaml\nrun: {prompts: [c], seed: null, height: 8}\ncomponents: {safety_checker: null}\n",
    )
    document, found = read(folder / "x" / "r.yaml")
    assert found == ()
    assert document is not None
    run = {"steps": 3, "prompts": ["c"], "height": 8}
    assert document.value == {"model": {"id": "a/b"}, "run": run, "components": {"safety_checker": None}}
    file, span = document.position(("run", "steps"))
    assert (Path(file).name, span) == ("base.yaml", Span(3, 10, 3, 11))
    assert Path(document.position(("run", "prompts", 0))[0]).name == "r.yaml"
    assert ("run", "prompts", 1) not in document.values


def test_extends_under_a_root(tmp_path: Path) -> None:
    folder = written(tmp_path, shared__base="a: 1\n", x__r="extends: base.yaml\n")
    document, found = read(folder / "x" / "r.yaml", roots=[folder / "shared"])
    assert found == ()
    assert document is not None
    assert document.value == {"a": 1}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\nextends: r.yaml\n", [("DC123", 2, 10)]),
        ("extends: none.yaml\n", [("DC121", 1, 10)]),
        ("extends: /etc/passwd\n", [("DC122", 1, 10)]),
        ("extends: 'C:\\x.yaml'\n", [("DC122", 1, 10)]),
        ("extends: ~/x.yaml\n", [("DC122", 1, 10)]),
        ("extends: passwd\n", [("DC122", 1, 10)]),
        ("extends: [a.yaml]\n", [("DC122", 1, 10)]),
        ("extends: x0.yaml\n", [("DC124", 1, 10)]),
        ("extends: bad.yaml\n", [("DC111", 2, 1)]),
        ("devices: none.yaml\n", [("DC125", 1, 10)]),
        ("devices: l4\n", [("DC125", 1, 10)]),
        ("devices: d.yaml\n", []),
        ("model: {id: '${DC_NOT_SET}'}\n", [("DC126", 1, 13)]),
        ("model: {id: '${DC_NOT_SET:-x}/${DC_NOT_SET:-}'}\n", []),
        ("model: {id: '${HF_TOKEN}'}\n", [("DC127", 1, 13)]),
        ("model: {path: '${TOKENIZER_DIR:-x}'}\n", []),
        ("model: {id: '${1x}'}\n", [("DC128", 1, 13)]),
        ("model: {dtype: '${X}'}\n", [("DC127", 1, 16)]),
        ("run: {prompts: '${DC_NOT_SET}.txt'}\n", [("DC126", 1, 16)]),
        ("run: {prompts: ['${DC_NOT_SET}']}\n", []),
    ],
)
def test_files_and_variables(tmp_path: Path, text: str, expected: list[tuple[str, int, int]]) -> None:
    folder = written(tmp_path, r=text, bad="a: 1\na: 2\n", d="gpu: l4\n")
    for index in range(20):
        (folder / f"x{index}.yaml").write_text(f"extends: x{index + 1}.yaml\n")
    _, found = read(folder / "r.yaml")
    assert places(found)[:1] == expected


@pytest.mark.parametrize("key", ["extends", "devices"])
def test_no_line_of_another_file_is_shown_through_a_link(tmp_path: Path, key: str) -> None:
    folder = written(tmp_path, r=f"{key}: link.yaml\n", d="gpu: l4\n")
    (folder / "secret").write_text("password: x: y\n")
    (folder / "link.yaml").symlink_to("secret")
    _, found = read(folder / "r.yaml")
    assert [(item.code, item.file) for item in found] == [("DC122", str(folder / "r.yaml"))]
    (folder / "link.yaml").unlink()
    (folder / "link.yaml").symlink_to("d.yaml")
    assert "DC122" not in {item.code for item in read(folder / "r.yaml")[1]}


def test_a_finding_in_a_base_names_the_way_there(tmp_path: Path) -> None:
    from dcompile.cli.render import locate
    from dcompile.driver import compile_recipe

    folder = written(
        tmp_path,
        base="version: 1\nmodel: {id: a/b}\nrun:\n  stps: 3\n",
        middle="extends: base.yaml\nrun: {sed: 1}\n",
        r="extends: middle.yaml\ndevices: d.yaml\nrun: {width: x}\n",
        d="gpu: l4\nnods: 2\n",
        bad="extends: broken.yaml\n",
        broken="a: 1\na: 2\n",
        lost="extends: bad2.yaml\n",
        bad2="extends: none.yaml\n",
    )
    done = compile_recipe(folder / "r.yaml")
    found = locate(done.diagnostics, done.document, str(folder / "r.yaml"), strict=False)
    said = {(Path(f.file).name, f.span.line): f.diagnostic.message.partition(" (")[2] for f in found}
    assert said == {
        ("base.yaml", 2): "r.yaml -> middle.yaml -> base.yaml)",
        ("base.yaml", 4): "r.yaml -> middle.yaml -> base.yaml)",
        ("middle.yaml", 2): "r.yaml -> middle.yaml)",
        ("d.yaml", 2): "r.yaml -> d.yaml)",
        ("r.yaml", 3): "",
    }
    (fault,) = read(folder / "bad.yaml")[1][:1]
    assert (Path(fault.file or "").name, fault.span and fault.span.line) == ("broken.yaml", 2)
    assert fault.message.endswith("(bad.yaml -> broken.yaml)")
    (fault,) = read(folder / "lost.yaml")[1]
    assert Path(fault.file or "").name == "bad2.yaml"
    assert fault.message.endswith("(lost.yaml -> bad2.yaml)")


def test_all_files_of_a_chain_share_one_bound(tmp_path: Path) -> None:
    body = "".join(f"  k{index}: 1\n" for index in range(9_000))
    folder = written(tmp_path, r=f"extends: b.yaml\na:\n{body}", b=f"extends: c.yaml\na:\n{body}", c=f"a:\n{body}")
    assert places(read(folder / "r.yaml")[1]) == [("DC102", 1, 10)]
    assert read(folder / "b.yaml")[1] == ()


def test_more_findings_than_anyone_reads_are_cut(tmp_path: Path) -> None:
    found = parse("a: 1\n" * 500, "r.yaml")[1]
    assert [item.code for item in found] == ["DC111"] * 100 + ["DC120"]
    assert found[-1].span == Span(102, 1, 102, 2)
    folder = written(tmp_path, r="a:\n" + "".join(f"  k{index}: ${{X}}\n" for index in range(300)))
    assert [item.code for item in read(folder / "r.yaml")[1]] == ["DC127"] * 100 + ["DC120"]


def test_messages_are_safe_to_print() -> None:
    long = Diagnostic("DC401", Severity.ERROR, f"`{'x' * 5000}\x1b[31m` of `y\u202e` {'z' * 3000}", "\x00")
    assert len(long.message) < 2100
    assert (long.message + long.hint).isprintable()
    assert long.message.startswith("`" + "x" * 80 + "...")


def test_line_breaks_of_every_kind_count_alike() -> None:
    for end in ("\n", "\r\n", "\r"):
        text = end.join(["a: 1", "b:\t2", "c: \x07", ""])
        assert places(parse(text.replace("\x07", "1"), "r.yaml")[1]) == [("DC106", 2, 3)]
        assert places(parse(text.encode(), "r.yaml")[1]) == [("DC104", 3, 4)]


def test_a_syntax_error_lies_inside_the_file() -> None:
    (found,) = parse("-\n.", "r.yaml")[1]
    assert (found.code, found.span) == ("DC101", Span(2, 1, 2, 2))


def test_variables_and_devices_are_filled_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DC_NAME", "flux")
    folder = written(tmp_path, r="model: {path: '${DC_ROOT:-/m}/${DC_NAME}'}\ndevices: d.yaml\n", d="\ngpu: l4\n")
    document, found = read(folder / "r.yaml")
    assert found == ()
    assert document is not None
    assert document.value == {"model": {"path": "/m/flux"}, "devices": {"gpu": "l4"}}
    file, span = document.position(("devices", "gpu"))
    assert (Path(file).name, span.line) == ("d.yaml", 2)


def test_an_override_comes_before_variables_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = written(tmp_path, x__r="model: {path: '${DC_NOT_SET}'}\ndevices: none.yaml\n", d="gpu: l4\n")
    document, found = read(folder / "x" / "r.yaml", overrides=["model.path=${DC_NOT_SET:-m}", "devices=d.yaml"])
    assert found == ()
    assert document is not None
    assert document.value == {"model": {"path": "m"}, "devices": {"gpu": "l4"}}


def test_nothing_that_a_terminal_obeys_is_printed() -> None:
    found = parse('"a\\e[31m": 1\n"a\\e[31m": 2\n', "r.yaml")[1]
    assert found[0].code == "DC111"
    assert "\x1b" not in found[0].message


def test_an_unreadable_recipe_is_for_the_caller(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("run.seed=7", {"run": {"seed": 7, "prompts": ["a", {"x": 1}]}}),
        ("run.prompts[0]=b", {"run": {"prompts": ["b", {"x": 1}]}}),
        ("run.prompts.0=b", {"run": {"prompts": ["b", {"x": 1}]}}),
        ("run.prompts[1].x=no", {"run": {"prompts": ["a", {"x": "no"}]}}),
        ("run={steps: 3}", {"run": {"steps": 3}}),
        ("run.args.0=1", {"run": {"prompts": ["a", {"x": 1}], "args": {"0": 1}}}),
        ("run.prompts=", {"run": {"prompts": None}}),
        ("name=a=b", {"run": {"prompts": ["a", {"x": 1}]}, "name": "a=b"}),
    ],
)
def test_overrides(override: str, value: object) -> None:
    document, _ = parse("run: {prompts: [a, {x: 1}]}\n", "r.yaml")
    assert document is not None
    changed, found = apply_overrides(document, [override])
    assert found == ()
    assert changed.value == value
    assert "--set" in changed.origins.values()


def test_an_override_that_needs_quotes_says_how_the_shell_keeps_them() -> None:
    document, _ = parse("run: {prompts: [a]}\n", "r.yaml")
    assert document is not None
    (found,) = apply_overrides(document, ["output.name={index:05d}-{seed}"])[1]
    assert found.message == "text goes on behind a closing } (in `--set output.name={index:05d}-{seed}`)"
    assert found.hint.endswith("""in the shell's: --set 'output.name="..."'""")


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("x", [("DC131", 1, 1)]),
        ("=1", [("DC131", 1, 1)]),
        ("a..b=1", [("DC131", 1, 1)]),
        ("run.seed=007", [("DC117", 1, 10)]),
        ("run.seed={a: 1, a: 2}", [("DC111", 1, 17)]),
        ("run.prompts[7]=x", [("DC132", 1, 1)]),
        ("run.prompts.x=x", [("DC132", 1, 1)]),
        ("name.x=1", [("DC132", 1, 1)]),
    ],
)
def test_wrong_overrides(override: str, expected: list[tuple[str, int, int]]) -> None:
    document, _ = parse("name: a\nrun: {prompts: [a]}\n", "r.yaml")
    assert document is not None
    changed, found = apply_overrides(document, [override])
    assert places(found) == expected
    assert changed is document


def test_no_diagnostic_prints_a_token() -> None:
    token = "hf_" + "a1" * 12
    for text in (f"{token}: 1\n{token}: 2\n", f"a: &{token} 1\n", f"a: !{token} 1\n"):
        assert token not in repr([(item.message, item.hint) for item in parse(text, "r.yaml")[1]])
    assert redact(f"x {token}") == "x (a token)"


@settings(max_examples=200, deadline=None)
@given(
    st.one_of(
        st.text(max_size=200), st.binary(max_size=200), st.text("ab:-?{}[],&*!|>'\"%@#\t\n 01.ex_<~", max_size=80)
    )
)
@example("a: !!binary x\n? |\n a\n: b")
def test_any_text_gives_a_document_or_diagnostics(text: str | bytes) -> None:
    document, found = parse(text, "r.yaml")
    assert isinstance(document, Document) or found
    assert all(item.code in FAULTS and item.span is not None for item in found)
    assert all(item.span.line >= 1 and item.span.column >= 1 for item in found if item.span)


@settings(max_examples=200, deadline=None)
@given(st.text("ab:-{}[],'\"#\n 01.", max_size=60))
def test_the_pure_parser_agrees(text: str) -> None:
    """Where both parsers accept a text they read the same; libyaml refuses `{0:}`, which the other reads."""
    import yaml
    from dcompile.source import parse as module

    fast, _ = parse(text, "r.yaml")
    kept, module._LOADER = module._LOADER, yaml.SafeLoader
    try:
        pure, _ = parse(text, "r.yaml")
    finally:
        module._LOADER = kept
    if fast is not None and pure is not None:
        assert fast.value == pure.value
