"""Rows of a job: prompts from the recipe and from files, and the seed of each picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from dcompile.cli.render import locate
from dcompile.driver import Compiled, compile_recipe
from dcompile.facts.prompt_file import MAX_FILE_BYTES
from dcompile.facts.prompts import MAX_KINDS

HEAD = """version: 1
model: {id: black-forest-labs/FLUX.1-dev}
devices: {gpu: h100-sxm-80gb}
run:
"""


def compiled(folder: Path, *run: str) -> Compiled:
    file = folder / "recipe.yaml"
    file.write_text(HEAD + "".join(f"  {line}\n" for line in run), encoding="utf-8")
    return compile_recipe(file)


def rows(folder: Path, *run: str) -> list[dict[str, Any]]:
    done = compiled(folder, *run)
    assert done.plan_json is not None, done.diagnostics
    found: list[dict[str, Any]] = done.plan_json["program"]["run"]["rows"]
    assert [row["index"] for row in found] == list(range(len(found)))
    return found


def faults(folder: Path, *run: str) -> list[tuple[str, int, str]]:
    done = compiled(folder, *run)
    assert done.plan_json is None
    found = locate(done.diagnostics, done.document, "recipe.yaml", strict=False)
    assert all("Traceback" not in finding.diagnostic.message for finding in found)
    return [(finding.diagnostic.code, finding.span.line, finding.diagnostic.message) for finding in found]


def test_a_list(tmp_path: Path) -> None:
    found = rows(tmp_path, "prompts: [a red fox, a boat]", "seed: 42", "negative_prompt: blurry")
    assert [(row["prompt"], row["negative_prompt"], row["seed"]) for row in found] == [
        ("a red fox", "blurry", 42),
        ("a boat", "blurry", 43),
    ]


def test_a_text_file_has_one_prompt_a_line(tmp_path: Path) -> None:
    (tmp_path / "prompts.txt").write_bytes("\ufeffa red fox\r\n\r\n  a boat, at dusk \r\nünï 🍎".encode())
    found = rows(tmp_path, "prompts: prompts.txt", "seed: 1")
    assert [row["prompt"] for row in found] == ["a red fox", "a boat, at dusk", "ünï 🍎"]
    assert [row["seed"] for row in found] == [1, 2, 3]


def test_a_jsonl_file(tmp_path: Path) -> None:
    lines = [
        {"prompt": "a red fox", "seed": 7, "steps": 30, "guidance": 2.5},
        {"prompt": "a boat\u2028at dusk", "negative_prompt": "rain", "height": 512},
    ]
    text = "\n\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
    (tmp_path / "p.jsonl").write_text(text, encoding="utf-8")
    found = rows(tmp_path, "prompts: p.jsonl", "seed: 100", "negative_prompt: blurry")
    assert [row["prompt"] for row in found] == [line["prompt"] for line in lines]
    assert [row["negative_prompt"] for row in found] == ["blurry", "rain"]
    assert [row["seed"] for row in found] == [7, 101]
    assert found[0]["args"] == {"num_inference_steps": 30, "guidance_scale": 2.5}
    assert found[1]["args"] == {"height": 512}


def test_a_csv_file(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text(
        'prompt,steps,guidance,seed\n"a red, ""old"" fox\nin the snow",30,2.5,7\n17,,,\n', encoding="utf-8"
    )
    found = rows(tmp_path, "prompts: p.csv", "seed: 100")
    assert [row["prompt"] for row in found] == ['a red, "old" fox\nin the snow', "17"]
    assert [row["seed"] for row in found] == [7, 101]
    assert [row["args"] for row in found] == [{"guidance_scale": 2.5, "num_inference_steps": 30}, {}]


def test_seeds_of_repeats(tmp_path: Path) -> None:
    found = rows(tmp_path, "prompts: [a, b, c]", "seed: 10", "images_per_prompt: 4")
    assert [(row["prompt"], row["seed"]) for row in found] == [
        (prompt, 10 + i * 4 + repeat) for i, prompt in enumerate("abc") for repeat in range(4)
    ]


def test_no_seed_is_seed_zero(tmp_path: Path) -> None:
    assert [row["seed"] for row in rows(tmp_path, "prompts: [a, b]")] == [0, 1]


def test_a_list_of_seeds(tmp_path: Path) -> None:
    found = rows(tmp_path, "prompts: [a, b]", "seeds: [5, 9]", "images_per_prompt: 2")
    assert [row["seed"] for row in found] == [5, 6, 9, 10]


def test_a_row_seed_comes_before_the_list(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text('{"prompt": "a", "seed": 3}\n{"prompt": "b"}\n', encoding="utf-8")
    assert [row["seed"] for row in rows(tmp_path, "prompts: p.jsonl", "seeds: [5, 9]")] == [3, 9]


def test_a_picture_can_be_had_again_alone(tmp_path: Path) -> None:
    many = rows(tmp_path, "prompts: [a, b, c]", "seed: 10")
    assert rows(tmp_path, "prompts: [c]", f"seed: {many[2]['seed']}")[0]["seed"] == many[2]["seed"]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("p.txt", None, "No such file"),
        ("p.txt", b"", "no prompts"),
        ("p.txt", b"\n  \n", "no prompts"),
        ("p.jsonl", b"", "no prompts"),
        ("p.csv", b"", "no prompts"),
        ("p.csv", b"prompt\n", "no prompts"),
        ("p.yaml", b"- a", "neither"),
        ("p.txt", b"\xff\xfe\xfa", "cannot be read"),
        ("p.jsonl", b'{"prompt": "a"}\n{"prompt": \n', "line 2"),
        ("p.jsonl", b'{"prompt": "a"}\n[1]\n', "row 2"),
        ("p.jsonl", b'{"prompt": "a"}\n{"text": "b"}\n', "row 2"),
        ("p.jsonl", b'{"prompt": 5}\n', "row 1"),
        ("p.jsonl", b'{"prompt": "a", "seed": "x"}\n', "seed"),
        ("p.jsonl", b'{"prompt": "a", "seed": -1}\n', "seed"),
        ("p.jsonl", b'{"prompt": "a", "seed": true}\n', "seed"),
        ("p.jsonl", b'{"prompt": "a", "seed": 1.5}\n', "seed"),
        ("p.jsonl", b'{"prompt": "a", "seed": 9223372036854775808}\n', "seed"),
        ("p.jsonl", b'{"prompt": "a", "guidance": NaN}\n', "line 1"),
        ("p.jsonl", b"[" * 100_000, "line 1"),
        ("p.jsonl", b'{"prompt": "a", "guidance": 1e999}\n', "line 1"),
        ("p.jsonl", b'{"prompt": "a", "x": [1e999]}\n', "line 1"),
        ("p.jsonl", b'{"prompt": "a", "steps": 3, "steps": 4}\n', "`steps` is given twice"),
        ("p.jsonl", b'{"prompt": "a", "height": 65537}\n', "from 1 to 65536"),
        ("p.jsonl", b'{"prompt": "a", "x": ' + b"[" * 50 + b"]" * 50 + b"}", "deeper than 20"),
        ("p.csv", b"prompt,prompt\na,b\n", "`prompt` is given twice"),
        ("p.csv", b"prompt,guidance\na,1e999\n", "too large for a number"),
        ("p.csv", b"text\na\n", "no column is called `prompt`"),
        ("p.csv", b"promt\n" + b"a\n" * 200, "but one `promt`"),
        ("p.csv", b"prompt,seed\na,\xc2\xb2\n", "seed"),
        ("p.csv", b"prompt,seed\na,1,2,3\n", "row 1"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, name: str, content: bytes | None, says: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    found = faults(tmp_path, "steps: 3", f"prompts: {name}")
    assert [(code, line) for code, line, _ in found] == [("DC305", 6)], found
    assert says in found[0][2]
    assert len(found[0][2]) < 200


def test_all_mistakes_of_a_file_are_told_at_once_and_each_cause_once(tmp_path: Path) -> None:
    lines = [
        '{"prompt": "a", "seed": -1, "steps": "many"}',
        '{"promt": "b"}',
        '{"prompt": "c", "steps": 0}',
        '{"prompt": "d"}',
        '{"prompt": }',
        '{"prompt": "e", "steps": 2.5}',
        "",
        "[1]",
        '{"prompt": "f"',
    ]
    (tmp_path / "p.jsonl").write_text("\n".join(lines), encoding="utf-8")
    found = faults(tmp_path, "prompts: p.jsonl", "seeds: [1, 2]", "id_column: steps")
    assert {(code, line) for code, line, _ in found} == {("DC305", 5), ("DC305", 6), ("DC305", 7)}
    assert [message for _, _, message in found] == [
        "row 1 of `p.jsonl`: `seed` is no whole number from 0 to 2**63 - 1 (`-1`)",
        "rows 1, 3, 6 of `p.jsonl`: `steps` is no whole number from 1 to 100000 (the first: `many`)",
        "row 2 of `p.jsonl`: no text under `prompt`, but something under `promt`",
        "lines 5, 9 of `p.jsonl` cannot be read as JSON (the first: Expecting value at column 12)",
        "row 7 of `p.jsonl`: no mapping with a text under `prompt` (`[1]`)",
        "row 4 of `p.jsonl`: no name under `steps`",
        "2 seeds for 8 prompts",
    ]


def test_the_good_rows_of_a_csv_file_do_not_hide_the_bad_ones(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("prompt,seed\na,1,2\nb,x\nc,1\n,4\nd,1e999\ne,1,2,3\n", encoding="utf-8")
    assert [message for _, _, message in faults(tmp_path, "prompts: p.csv")] == [
        "rows 1, 6 of `p.csv`: more cells than the first line has (the first: 3 cells for 2 columns)",
        "row 2 of `p.csv`: `seed` is no whole number from 0 to 2**63 - 1 (`x`)",
        "row 4 of `p.csv`: no text under `prompt`",
        "row 5 of `p.csv`: a number that is none (1e999 is too large for a number)",
    ]


def test_what_ends_the_reading_does_not_hide_what_came_before(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text('prompt,seed\na,x\nb,"1"2\n', encoding="utf-8")
    found = [message for _, _, message in faults(tmp_path, "prompts: p.csv", "seeds: [1]")]
    assert [message.partition(":")[0] for message in found] == ["row 1 of `p.csv`", "`p.csv` cannot be read"]


def test_many_bad_rows_are_counted_and_the_rest_is_left(tmp_path: Path) -> None:
    rows = ['{"prompt": 1}' if number % 2 else '{"prompt": "a"}' for number in range(1, 1001)]
    (tmp_path / "p.jsonl").write_text("\n".join(rows), encoding="utf-8")
    assert [message for _, _, message in faults(tmp_path, "prompts: p.jsonl")] == [
        "rows 1, 3, 5, 7, 9, 11, 13, 15 and 92 more of `p.jsonl`: no text under `prompt` (the first: `1`)",
        "100 rows cannot be used; the rest was not looked at",
    ]
    many = "\n".join(f'{{"pro{letter}mpt": 1}}' for letter in "abcdefghijklmnopqrstuvwxyz")
    (tmp_path / "p.jsonl").write_text(many, encoding="utf-8")
    found = faults(tmp_path, "prompts: p.jsonl")
    assert [code for code, _, _ in found] == ["DC305"] * MAX_KINDS + ["DC120"]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("p.csv", b"prompt,stepz\na,5\n", "stepz"),
        ("p.jsonl", b'{"prompt": "a", "stepz": 5}\n', "stepz"),
        ("p.jsonl", b'{"prompt": "a", "frames": 5}\n', "frames"),
        ("p.jsonl", b'{"prompt": "a", "generator": 5}\n', "generator"),
        ("p.jsonl", b'{"prompt": "a", "steps": 0}\n', "steps"),
        ("p.jsonl", b'{"prompt": "a", "height": "tall"}\n', "height"),
        ("p.jsonl", b'{"prompt": "a", "negative_prompt": 5}\n', "negative_prompt"),
        ("p.csv", b"prompt,steps\na,2.5\n", "steps"),
    ],
)
def test_columns_that_the_call_does_not_take(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    (tmp_path / name).write_bytes(content)
    found = faults(tmp_path, f"prompts: {name}")
    assert len(found) == 1
    code, line, message = found[0]
    assert code in ("DC305", "DC306")
    assert line == 5
    assert f"`{says}`" in message


def test_a_folder_is_no_prompt_file(tmp_path: Path) -> None:
    (tmp_path / "p.txt").mkdir()
    assert [fault[0] for fault in faults(tmp_path, "prompts: p.txt")] == ["DC305"]


def test_a_file_has_a_limit(tmp_path: Path) -> None:
    with (tmp_path / "p.txt").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    assert "32 MiB" in faults(tmp_path, "prompts: p.txt")[0][2]


@pytest.mark.parametrize(
    ("run", "line"),
    [
        (("steps: 3",), 4),
        (("steps: 3", "prompts: []"), 6),
        (("prompts: [a, b]", "seeds: [1]"), 6),
        (("prompts: a red fox in the snow",), 5),
    ],
)
def test_recipes_that_cannot_be_used(tmp_path: Path, run: tuple[str, ...], line: int) -> None:
    found = faults(tmp_path, *run)
    assert [code for code, _, _ in found] == ["DC305"]
    assert found[0][1] in (line, line + 1)


@pytest.mark.parametrize(
    ("row", "parallel", "code"),
    [
        ('{"prompt": "a", "height": 1040, "width": 1040}', "{context: {ulysses: 2}}", "DC402"),
        ('{"prompt": "a", "max_sequence_length": 7}', "{context: {ulysses: 2}}", "DC403"),
        ('{"prompt": "a", "max_sequence_length": 600}', "{data: 2}", "DC309"),
        ('{"prompt": "a", "max_sequence_length": "x"}', "{data: 2}", "DC309"),
        ('{"prompt": "a", "width": 8}', "{data: 2}", "DC308"),
        ('{"prompt": "a", "width": 65536, "height": 65536}', "{data: 2}", "DC501"),
        ('{"prompt": "a", "width": 512, "height": 512}', "{context: {ulysses: 2}}", None),
    ],
)
def test_a_row_with_its_own_shape_is_checked(tmp_path: Path, row: str, parallel: str, code: str | None) -> None:
    (tmp_path / "p.jsonl").write_text(f'{{"prompt": "fine"}}\n{row}\n{row}\n', encoding="utf-8")
    file = tmp_path / "recipe.yaml"
    text = HEAD.replace("80gb}", f"80gb, per_node: 2}}\nparallel: {parallel}")
    file.write_text(f"{text}  prompts: p.jsonl\n", encoding="utf-8")
    done = compile_recipe(file)
    found = locate(done.diagnostics, done.document, "recipe.yaml", strict=False)
    assert [(finding.diagnostic.code, finding.span.line) for finding in found] == ([(code, 6)] if code else [])
    assert done.is_valid == (code is None)
    assert all(finding.diagnostic.message.startswith("picture 1: ") for finding in found)
    if code and code != "DC501":
        assert found[0].diagnostic.message.endswith("; refused too: picture 2")


@pytest.mark.parametrize(
    ("name", "content", "hint"),
    [
        ("p.txt", None, "the path is relative to the recipe"),
        ("p.txt", b"\xff\xfe\xfa", "save it as UTF-8"),
        ("p.jsonl", b'{"prompt": \n', "write one JSON object on each line"),
        ("p.csv", b"prompt,prompt\na,b\n", "the first line names the columns"),
    ],
)
def test_the_way_out_is_about_the_file(tmp_path: Path, name: str, content: bytes | None, hint: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    (found,) = compiled(tmp_path, f"prompts: {name}").diagnostics
    assert found.hint.startswith(hint)


def test_columns_that_can_be_are_those_that_a_file_can_hold(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("prompt,colour\na,red\n", encoding="utf-8")
    (found,) = compiled(tmp_path, "prompts: p.csv").diagnostics
    known = found.hint.partition("a column can be ")[2].split(", ")
    assert {"seed", "steps", "guidance", "prompt_2"} <= set(known)
    assert not {"latents", "prompt_embeds", "ip_adapter_image"} & set(known)


def test_pictures_have_a_limit(tmp_path: Path) -> None:
    found = faults(tmp_path, "prompts: [a, b]", "images_per_prompt: 60000")
    assert [(code, line) for code, line, _ in found] == [("DC305", 5)]


def test_a_column_names_the_rows(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("id,prompt\nfox-1,a red fox\n7,a boat\n", encoding="utf-8")
    output = "id_column: id\noutput:\n  name: '{id}-{seed}'"
    found = rows(tmp_path, "prompts: p.csv", output)
    assert [(row["id"], row["args"]) for row in found] == [("fox-1", {}), ("7", {})]
    assert "id" not in rows(tmp_path, "prompts: [a]")[0]


@pytest.mark.parametrize(
    ("text", "column", "said"),
    [
        ("id,prompt\nx,a\n,b\n", "id", "row 2 of `p.csv`: no name under `id`"),
        ("id,prompt\nx,a\n", "name", "row 1 of `p.csv`: no name under `name`"),
        ("id,prompt\nx,a\n", "prompt", "is an argument of the row"),
    ],
)
def test_a_column_that_names_no_row(tmp_path: Path, text: str, column: str, said: str) -> None:
    (tmp_path / "p.csv").write_text(text, encoding="utf-8")
    ((code, line, message),) = faults(tmp_path, "prompts: p.csv", f"id_column: {column}")
    assert (code, line) == ("DC305", 6)
    assert said in message


def test_names_by_the_column_stay_in_the_folder_and_apart(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("id,prompt\n../x,a\n", encoding="utf-8")
    name = "id_column: id\noutput: {name: '{id}'}"
    assert "leads out" in faults(tmp_path, "prompts: p.csv", name)[0][2]
    (tmp_path / "p.csv").write_text("id,prompt\nx,a\nx,b\n", encoding="utf-8")
    assert "the same file" in faults(tmp_path, "prompts: p.csv", name)[0][2]
    assert "without `run.id_column`" in faults(tmp_path, "prompts: [a]\noutput: {name: '{id}'}")[0][2]
