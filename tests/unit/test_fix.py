"""`check --fix`: one right edit is made, in the text, and everything else stays as it is."""

from __future__ import annotations

import os
import random
import re
import sys
from pathlib import Path

import pytest
from dcompile.cli.fix import fixed
from dcompile.cli.main import main
from dcompile.driver import compile_recipe
from dcompile.recipe.sections import takes_only_numbers

sys.path.insert(0, str(Path(__file__).parents[1] / "property"))
from test_fuzz import RECIPES, mutant

HEAD = "version: 1\nmodel: {id: black-forest-labs/FLUX.1-dev}\ndevices: {gpu: h100-sxm-80gb}\n"
RUN = "run: {prompts: [a], height: 1024, width: 1024}\n"


def mend(text: str, file: Path) -> str:
    data = text.encode("utf-8", "surrogatepass")
    new, _ = fixed(str(file), data, lambda candidate: compile_recipe(file, text=candidate))
    return new.decode("utf-8", "surrogatepass")


@pytest.mark.parametrize(
    ("text", "right"),
    [
        (HEAD + "run: {prompts: [a], stps: 3}\n", HEAD + "run: {prompts: [a], steps: 3}\n"),
        (
            HEAD + "run:\n  prompts: [a]  # one\n  num_inference_steps: 3\n",
            HEAD + "run:\n  prompts: [a]  # one\n  steps: 3\n",
        ),
        (HEAD + "run: {prompts: [a], 'guidance_scale': 3}\n", HEAD + "run: {prompts: [a], guidance: 3}\n"),
        (HEAD.replace("gpu: ", "per-node: 1, gpu: ") + RUN, HEAD.replace("gpu: ", "per_node: 1, gpu: ") + RUN),
        (HEAD + RUN + "Output: {dir: x}\n", HEAD + RUN + "output: {dir: x}\n"),
        (HEAD.replace("dev}", "dev, dtype: bf16}") + RUN, HEAD.replace("dev}", "dev, dtype: bfloat16}") + RUN),
        (HEAD.replace("dev}", "dev, dtype: torch.float16}") + RUN, HEAD.replace("dev}", "dev, dtype: float16}") + RUN),
        (HEAD + RUN + "components: {vae: {tiling: yes}}\n", HEAD + RUN + "components: {vae: {tiling: true}}\n"),
        (HEAD + RUN + "components: {vae: {tiling: 'Off' }}\n", HEAD + RUN + "components: {vae: {tiling: false }}\n"),
        (HEAD + "run: {prompts: [a], steps: 4.0}\n", HEAD + "run: {prompts: [a], steps: 4}\n"),
        (HEAD + "run: {prompts: [a], steps: '4'}\n", HEAD + "run: {prompts: [a], steps: 4}\n"),
        (HEAD + "run: {prompts: [a], steps: 1_0}\n", HEAD + "run: {prompts: [a], steps: 10}\n"),
        (HEAD + "run: {prompts: [a], seeds: [0x1F]}\n", HEAD + "run: {prompts: [a], seeds: [31]}\n"),
        (HEAD + "run: {prompts: [a], seed: 007}\n", HEAD + "run: {prompts: [a], seed: 7}\n"),
        (HEAD + "run: {prompts: [a, 1.50]}\n", HEAD + 'run: {prompts: [a, "1.50"]}\n'),
        (HEAD + RUN + "launch: {env: {A: 010}}\n", HEAD + RUN + "launch: {env: {A: 010}}\n"),
        (HEAD + RUN + "launch: {env: {A: 1}}\n", HEAD + RUN + 'launch: {env: {A: "1"}}\n'),
        (HEAD + "run:\tx\n", HEAD + "run: x\n"),
        (HEAD + "run: {prompts: [a],\tsteps:\t3}\t# c\tc\n", HEAD + "run: {prompts: [a], steps: 3} # c\tc\n"),
        (HEAD + RUN.rstrip() + "  # dcompile: ignore DC603 -- x\n", HEAD + RUN),
    ],
)
def test_one_right_edit(text: str, right: str, tmp_path: Path) -> None:
    assert mend(text, tmp_path / "r.yaml") == right
    for end, mark in (("\r\n", ""), ("\n", "\ufeff")):
        dressed = mark + text.replace("\n", end)
        assert mend(dressed, tmp_path / "r.yaml") == mark + right.replace("\n", end)


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "run: {prompts: [a], steps: 010}\n",  # 8 or 10
        HEAD + "run: {prompts: [a], stps: 3, steps: 4}\n",  # which of the two
        HEAD + "run: {prompt: a fox}\n",  # a list is wanted
        HEAD + RUN + "output: {zone: x}\n",
        "version: 1\nmodel: {id: black-forest-labs/FLUX.1-dev}\ndevices: {kind: cuda, memory: 24G}\n" + RUN,
        HEAD + RUN + "requires: {diffusers: 0.42}\n",
        HEAD + "run:\n\tprompts: [a]\n",  # how deep
        HEAD + RUN + "run: {}\n",
        HEAD + RUN + "components: {vae: {tiling: maybe}}\n",
        HEAD + RUN + "parallel: {tensor: 5}\n",
        HEAD + RUN,
        "",
        "\ufeff",
        "[",
    ],
)
def test_what_has_two_readings_is_left(text: str, tmp_path: Path) -> None:
    assert mend(text, tmp_path / "r.yaml") == text


def test_fields_that_take_only_numbers() -> None:
    for path in (("run", "steps"), ("run", "seeds", 0), ("devices", "per_node"), ("parallel", "device_map", "x", 0)):
        assert takes_only_numbers(path) is (path[0] != "parallel")
    for path in (("model", "revision"), ("run", "prompts", 0), ("launch", "env", "A"), ("run", "args", "x"), ()):
        assert not takes_only_numbers(path)


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, link = tmp_path / "r.yaml", tmp_path / "link.yaml"
    text = "# top\n" + HEAD + "run:\n  stps: 3   # few\n  seed: 1_0\n  prompts: [a]\n  zone: 1\n"
    file.write_text(text, encoding="utf-8")
    file.chmod(0o640)
    link.symlink_to(file)
    assert main(["check", "--diff", str(file)]) == 1
    out = capsys.readouterr().out
    assert "-  stps: 3   # few\n-  seed: 1_0\n+  steps: 3   # few\n+  seed: 10\n" in out
    assert file.read_text(encoding="utf-8") == text
    assert main(["check", "--fix", str(link)]) == 1
    said = capsys.readouterr()
    assert [line.rpartition(" DC")[2] for line in said.err.splitlines()] == [
        "201 `stps` -> `steps`",
        "117 `1_0` -> `10`",
    ]
    assert said.out.count(" error ") == 1
    assert "`zone`" in said.out
    assert file.read_text(encoding="utf-8") == text.replace("stps", "steps").replace("1_0", "10")
    assert (file.stat().st_mode & 0o777, link.is_symlink()) == (0o640, True)
    assert sorted(os.listdir(tmp_path)) == ["link.yaml", "r.yaml"]
    again = file.stat().st_mtime_ns
    assert main(["check", "--fix", str(file)]) == 1
    assert file.stat().st_mtime_ns == again


def test_a_base_is_not_touched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, file = tmp_path / "base.yaml", tmp_path / "r.yaml"
    base.write_text(HEAD + "run: {prompts: [a], stps: 3}\n", encoding="utf-8")
    file.write_text("extends: base.yaml\nrun: {sed: 3}\n", encoding="utf-8")
    assert main(["check", "--fix", str(file)]) == 1
    assert file.read_text(encoding="utf-8") == "extends: base.yaml\nrun: {seed: 3}\n"
    assert "stps" in base.read_text(encoding="utf-8")
    assert main(["check", "--fix", str(file), "--set", "run.stepz=3"]) == 1


def test_mending_twice_is_mending_once(tmp_path: Path) -> None:
    source = random.Random(7)
    changed = 0
    for number in range(300):
        text = mutant(source) if number % 2 else misspelt(source)
        once = mend(text, tmp_path / "r.yaml")
        assert mend(once, tmp_path / "r.yaml") == once
        changed += once != text
    assert changed > 30


def misspelt(source: random.Random) -> str:
    """A recipe of the repository in which a letter is missing from some keys."""
    text = source.choice(RECIPES)
    for _ in range(3):
        keys = list(re.finditer(r"\w{4,}(?=:)", text))
        at = source.choice(keys).start() + source.randrange(4)
        text = text[:at] + text[at + 1 :]
    return text
