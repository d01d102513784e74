"""For every code that no rule has: a recipe in which it is found, and beside it the closest one that passes.

The rules' own cases are in `tests/golden/diagnostics/`; together no code that a recipe can cause lacks a near miss.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from dcompile.cli import environment
from dcompile.cli.rule_pages import EMITTED
from dcompile.core.diagnostics import has_errors
from dcompile.driver import compile_recipe
from dcompile.facts.facts_file import facts_text
from dcompile.facts.registry import known_versions, load_model

MODELS = Path(__file__).parents[1] / "golden" / "models"
HEAD = "version: 1\nmodel: {id: black-forest-labs/FLUX.1-dev}\n"
CARD = "devices: {gpu: h100-sxm-80gb}\n"
RUN = "run: {prompts: [a red fox], height: 1024, width: 1024}\n"
LOCAL = "version: 1\nmodel: {path: odd-flux}\nrun: {prompts: [a red fox], height: 64, width: 64}\n"
TEAM = "version: 1\nmodel: {id: our-team/flux}\n" + CARD + RUN
WEIGHTS = "odd-flux/transformer/diffusion_pytorch_model.safetensors"
FACTS = ".dcompile/models/our-team--flux.json"
PLAIN = HEAD + CARD + RUN
PICTURE = MODELS.parent / "pictures" / "fox.png"
EDIT = HEAD.replace("-dev", "-Kontext-dev") + CARD + "run: {prompts: [a red fox], images: [fox.png]}\n"


@dataclass(frozen=True)
class Job:
    """A recipe, what lies beside it (None: not there), and what the command line says."""

    text: str | bytes
    files: dict[str, str | bytes | None] = field(default_factory=dict)
    overrides: tuple[str, ...] = ()


def run(keys: str) -> str:
    return HEAD + CARD + f"run: {{prompts: [a red fox], height: 1024, width: 1024, {keys}}}\n"


def auto(bounds: str, per_node: int = 2) -> str:
    return HEAD + f"devices: {{gpu: h100-sxm-80gb, per_node: {per_node}}}\n" + RUN + f"parallel: {bounds}\n"


def nested(depth: int) -> str:
    return run("args: {max_sequence_length: 256}") + "targets: " + "{a: " * depth + "1" + "}" * depth + "\n"


def chain(length: int) -> dict[str, str | bytes | None]:
    """Bases that lead to each other."""
    files: dict[str, str | bytes | None] = {f"b{i}.yaml": f"extends: b{i + 1}.yaml\n" for i in range(length)}
    return {**files, f"b{length}.yaml": PLAIN}


TOKEN = "hf_" + "a" * 34
MOST_NAMES = [f"n{i}" for i in range(101)]

CASES: dict[str, tuple[Job, Job]] = {
    "DC101": (Job(PLAIN + "name: @fox\n"), Job(PLAIN + "name: '@fox'\n")),
    "DC102": (
        Job(HEAD + CARD + f"run: {{prompts: [{', '.join(['a'] * 20_000)}]}}\n"),
        Job(HEAD + CARD + f"run: {{prompts: [{', '.join(['a'] * 19_000)}], height: 1024, width: 1024}}\n"),
    ),
    "DC103": (Job(b"# f\xfcchse\n" + PLAIN.encode()), Job("# f\xfcchse\n" + PLAIN)),
    "DC104": (Job(PLAIN + "output: {dir: fox\x07}\n"), Job(PLAIN + 'output: {dir: "fox\\t"}\n')),
    "DC105": (
        Job(PLAIN + "<<<<<<< ours\nname: a\n=======\nname: b\n>>>>>>> theirs\n"),
        Job(PLAIN + "name: a\n# =======\n"),
    ),
    "DC106": (Job(PLAIN + "name:\tfox\n"), Job(PLAIN + "name: fox # a\ttab\n")),
    "DC107": (Job(nested(50)), Job(nested(0).replace("targets: 1\n", "") + "# " + "{" * 60 + "\n")),
    "DC108": (Job(PLAIN + "---\n" + PLAIN), Job("---\n" + PLAIN)),
    "DC109": (Job("# nothing\n"), Job("# something\n" + PLAIN)),
    "DC110": (Job("- version: 1\n"), Job(PLAIN)),
    "DC111": (Job(PLAIN + "name: a\nname: b\n"), Job(PLAIN + "name: a\n# name: b\n")),
    "DC112": (Job(PLAIN + "launch: {env: {~: a}}\n"), Job(PLAIN + "launch: {env: {'~': a}}\n")),
    "DC113": (Job(PLAIN + "name: &fox fox\n"), Job(PLAIN + "name: '&fox fox'\n")),
    "DC114": (Job(PLAIN + "output: {<<: {dir: a}}\n"), Job(PLAIN + "output: {dir: '<<'}\n")),
    "DC115": (Job(PLAIN + "name: !!str fox\n"), Job(PLAIN + "name: '!!str fox'\n")),
    "DC116": (Job("%YAML 1.2\n---\n" + PLAIN), Job("# %YAML 1.2\n---\n" + PLAIN)),
    "DC117": (Job(run("seed: 010")), Job(run("seed: 10"))),
    "DC118": (Job(run("true_cfg: .inf")), Job(run("true_cfg: 1.0e+2"))),
    "DC119": (Job(run("seed: {{ seed }}")), Job(PLAIN + "name: '{{ name }}'\n")),
    "DC120": (
        Job(HEAD + CARD + RUN + f"components: {{{', '.join(f'{name}: null' for name in MOST_NAMES)}}}\n"),
        Job(HEAD + CARD + RUN + "components: {text_encoder: {dtype: bfloat16}}\n"),
    ),
    "DC121": (
        Job("extends: base.yaml\nrun: {seed: 1}\n"),
        Job("extends: base.yaml\nrun: {seed: 1}\n", {"base.yaml": PLAIN}),
    ),
    "DC122": (
        Job("extends: base.txt\n", {"base.txt": PLAIN}),
        Job("extends: base.yml\n", {"base.yml": PLAIN}),
    ),
    "DC123": (
        Job("extends: base.yaml\n", {"base.yaml": "extends: recipe.yaml\n"}),
        Job("extends: base.yaml\n", {"base.yaml": "extends: other.yaml\n", "other.yaml": PLAIN}),
    ),
    "DC124": (Job("extends: b0.yaml\n", chain(16)), Job("extends: b0.yaml\n", chain(14))),
    "DC125": (
        Job(HEAD + RUN + "devices: machine.yaml\n"),
        Job(HEAD + RUN + "devices: machine.yaml\n", {"machine.yaml": "gpu: h100-sxm-80gb\n"}),
    ),
    "DC126": (
        Job(HEAD.replace("black-forest-labs/FLUX.1-dev", "'${NOT_SET}'") + CARD + RUN),
        Job(HEAD.replace("black-forest-labs/FLUX.1-dev", "'${NOT_SET:-black-forest-labs/FLUX.1-dev}'") + CARD + RUN),
    ),
    "DC127": (
        Job(HEAD.replace("}", ", revision: '${HOME}'}") + CARD + RUN),
        Job(PLAIN + "output: {dir: '${HOME}'}\n"),
    ),
    "DC128": (Job(PLAIN + "output: {dir: '${a b}'}\n"), Job(PLAIN + "output: {dir: 'a b'}\n")),
    "DC131": (Job(PLAIN, overrides=("run.seed",)), Job(PLAIN, overrides=("run.seed=1",))),
    "DC132": (Job(PLAIN, overrides=("run.prompts[3]=a",)), Job(PLAIN, overrides=("run.prompts[0]=a",))),
    "DC201": (Job(run("sed: 1")), Job(run("seed: 1"))),
    "DC202": (Job(PLAIN.replace("version: 1\n", "")), Job(PLAIN)),
    "DC203": (Job(run("seed: [1]")), Job(run("seeds: [1]"))),
    "DC204": (
        Job(HEAD.replace("}", ", dtype: int8}") + CARD + RUN),
        Job(HEAD.replace("}", ", dtype: float16}") + CARD + RUN),
    ),
    "DC205": (Job(run("steps: 0")), Job(run("steps: 1"))),
    "DC206": (Job(PLAIN + "output:\n"), Job(PLAIN + "output: {}\n")),
    "DC207": (
        Job(PLAIN + "components: {vae: {device: 0}}\n"),
        Job(PLAIN + "parallel: {components: {vae: {device: 0}}}\n"),
    ),
    "DC208": (
        Job(HEAD + RUN + "devices: {kind: cuda, memory: 80G}\n"),
        Job(HEAD + RUN + "devices: {kind: cuda, memory: 80GiB}\n"),
    ),
    "DC209": (Job(PLAIN + f"name: {TOKEN}\n"), Job(PLAIN + "name: hf_red_fox\n")),
    "DC210": (
        Job(PLAIN.replace("{id:", "{path: weights, id:")),
        Job(PLAIN.replace("{id:", "{path: weights, like:")),
    ),
    "DC301": (Job(PLAIN.replace("FLUX.1-dev", "FLUX.0-dev")), Job(PLAIN)),
    "DC302": (Job(PLAIN.replace("h100-sxm-80gb", "h100")), Job(PLAIN)),
    "DC303": (Job(LOCAL, {"odd-flux/model_index.json": "{}"}), Job(LOCAL)),
    "DC305": (Job(run("seeds: [1, 2]")), Job(run("seeds: [1]"))),
    "DC307": (
        Job(PLAIN.replace("-80gb", "-80gb, memory: 96GiB")),
        Job(PLAIN.replace("-80gb", "-80gb, memory: 72GiB")),
    ),
    "DC312": (Job(TEAM, {FACTS: "{}"}), Job(TEAM, {FACTS: "our team's"})),
    "DC315": (Job("requires: {torch: '>=99'}\n" + PLAIN), Job("requires: {torch: '>=2'}\n" + PLAIN)),
    "DC316": (Job(LOCAL, {WEIGHTS: b"\0" * 20}), Job(LOCAL)),
    "DC350": (Job(PLAIN + "# dcompile: ignore DC503\n"), Job(PLAIN + "# dcompile, ignore DC503\n")),
    "DC351": (
        Job(auto("{data: 1}").replace("per_node: 2}", "per_node: 1}  # dcompile: ignore DC408 -- ours")),
        Job(
            auto("{data: 1}")
            .replace("per_node: 2}", "per_node: 2}")
            .replace("1}\n", "1} # dcompile: ignore DC408 -- ours\n")
        ),
    ),
    "DC352": (
        Job(PLAIN + "name: fox  # dcompile: ignore DC201 -- ours\n"),
        Job(auto("{data: 1}").replace("1}\n", "1} # dcompile: ignore DC408 -- ours\n")),
    ),
    "DC360": (Job(EDIT, {"fox.png": "a red fox"}), Job(EDIT, {"fox.png": PICTURE.read_bytes()})),
    "DC363": (
        Job(PLAIN.replace("}", ", pipeline: WanPipeline}", 1)),
        Job(PLAIN.replace("}", ", pipeline: FluxPipeline}", 1)),
    ),
    "DC364": (Job(run("task: text-to-video")), Job(run("task: text-to-image"))),
    "DC490": (Job(auto("{auto: {forbid: [tensr]}}")), Job(auto("{auto: {forbid: [tensor]}}"))),
    "DC491": (Job(auto("{auto: {}, tensor: 2}")), Job(auto("{auto: {fixed: {tensor: 2}}}"))),
    "DC590": (
        Job(auto("auto", 1).replace("h100-sxm-80gb", "l4")),
        Job(auto("auto", 1)),
    ),
}


def test_no_code_is_without_a_near_miss() -> None:
    assert CASES.keys() == EMITTED.keys()


def found(job: Job, folder: Path) -> tuple[set[str], bool]:
    """The codes of a job, and whether it can run."""
    shutil.copytree(MODELS / "odd-flux", folder / "odd-flux")
    for name, content in job.files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if content == "our team's":
            content = facts_text(load_model("black-forest-labs/FLUX.1-dev")).replace(
                "black-forest-labs/FLUX.1-dev", "our-team/flux"
            )
        file.write_bytes(content if isinstance(content, bytes) else str(content).encode())
    recipe = folder / "recipe.yaml"
    recipe.write_bytes(job.text if isinstance(job.text, bytes) else job.text.encode())
    compiled = compile_recipe(recipe, job.overrides)
    diagnostics = compiled.diagnostics
    if compiled.plan_json is not None and compiled.recipe is not None:
        diagnostics += tuple(environment.version_warnings(compiled.plan_json["requires"], compiled.recipe.requires))
    return {item.code for item in diagnostics}, compiled.is_valid and not has_errors(diagnostics)


@pytest.mark.parametrize("code", CASES)
def test_it_is_found_here_and_not_in_the_nearest_recipe(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "installed", lambda name: known_versions().get(name, "1.0"))
    monkeypatch.delenv("NOT_SET", raising=False)
    wrong, near = CASES[code]
    assert code in found(wrong, tmp_path / "wrong")[0]
    codes, is_valid = found(near, tmp_path / "near")
    assert code not in codes
    assert is_valid, codes
