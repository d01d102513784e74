"""How much work `parallel: auto` does, and how long it takes.

What is counted is asserted exactly; times are processor seconds of one core, asserted with room for a busy machine.
`python tests/benchmarks/test_auto_search.py` prints the table of `compiler/docs/auto.md`.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from dcompile.driver import compile_recipe
from dcompile.facts.resolve import resolve
from dcompile.plan.auto import judge as judging
from dcompile.plan.auto import no_fit
from dcompile.plan.auto.changes import changes
from dcompile.plan.auto.choose import choose
from dcompile.recipe.decode import decode
from dcompile.rules import rule
from dcompile.source.read import read

RECIPE = """
version: 1
model: {{id: {model}, dtype: bfloat16}}
devices: {{gpu: {gpu}, per_node: {devices}, nodes: {nodes}}}
parallel: auto
run: {{prompts: [{prompts}], seed: 1{run}}}
"""
JOBS = (
    ("black-forest-labs/FLUX.1-dev", 8, 8),
    ("black-forest-labs/FLUX.2-dev", 64, 16),
    ("Wan-AI/Wan2.1-T2V-14B-Diffusers", 128, 64),
    ("Qwen/Qwen-Image", 512, 512),
)


@pytest.mark.parametrize(("model", "devices", "rows"), JOBS)
def test_a_candidate_is_judged_once_with_a_bounded_number_of_layouts(
    model: str, devices: int, rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "job.yaml"
    prompts = ", ".join(f"p{index}" for index in range(rows))
    text = RECIPE.format(model=model, gpu="h100-sxm-80gb", devices=devices, nodes=1, prompts=prompts, run="")
    file.write_text(text, encoding="utf-8")
    compiled = compile_recipe(file)
    assert compiled.checked is not None
    counted: Counter[str] = Counter()

    def counting(module: Any, name: str) -> Any:
        real = getattr(module, name)

        def call(*arguments: Any, **named: Any) -> Any:
            counted[name] += 1
            return real(*arguments, **named)

        return call

    for module, name in ((judging, "judge"), (judging, "check"), (judging, "estimate"), (rule, "device_loads")):
        monkeypatch.setattr(module, name, counting(module, name))
    start = time.process_time()
    assert compiled.choice is not None
    seconds = time.process_time() - start
    candidates = counted["judge"]
    print(f"\n{model} on {devices}: {candidates} candidates, {1000 * seconds / candidates:.2f} ms each")
    # Once more for what the findings about the winner propose.
    assert candidates <= counted["device_loads"] <= candidates + 1
    assert counted["check"] <= candidates + 1
    assert counted["estimate"] == sum(one.checked is not None for one in compiled.choice.judged)
    # What is tried grows with the logarithm of the devices for each split, not with their number.
    assert candidates < 1500


HUGE = ", batch: 16, height: 8192, width: 8192"
SEARCHES = (
    # name, model, card, nodes of eight, pictures, more
    ("one node", "black-forest-labs/FLUX.2-dev", "h100-sxm-80gb", 1, 64, ""),
    ("8 nodes", "black-forest-labs/FLUX.2-dev", "h100-sxm-80gb", 8, 64, ""),
    ("64 nodes", "black-forest-labs/FLUX.2-dev", "h100-sxm-80gb", 64, 512, ""),
    ("64 nodes", "Wan-AI/Wan2.1-T2V-14B-Diffusers", "h100-sxm-80gb", 64, 512, ""),
    ("64 nodes", "Qwen/Qwen-Image", "h100-sxm-80gb", 64, 512, ""),
    ("nothing fits, one node", "black-forest-labs/FLUX.1-dev", "rtx-4090", 1, 16, HUGE),
    ("nothing fits, 64 nodes", "black-forest-labs/FLUX.1-dev", "rtx-4090", 64, 16, HUGE),
)
MOST_SECONDS = 5.0
MOST_SECONDS_OF_1000 = 1.0
ROOM = 2.0
"""By how much a busy machine's processor may be slower."""


@dataclass(frozen=True)
class Timed:
    """One search: candidates judged, those looked at for a change, and processor seconds."""

    judged: int
    looked_at: int
    seconds: float


def search(folder: Path, model: str, gpu: str, nodes: int, rows: int, run: str) -> Timed:
    """Chooses a plan for a recipe, and says what that took."""
    prompts = ", ".join(f"p{index}" for index in range(rows))
    file = folder / "job.yaml"
    text = RECIPE.format(model=model, gpu=gpu, devices=8, nodes=nodes, prompts=prompts, run=run)
    file.write_text(text, encoding="utf-8")
    document, _ = read(file)
    assert document is not None
    recipe, _ = decode(document)
    assert recipe is not None
    facts, _ = resolve(recipe, folder)
    assert facts is not None
    counted: Counter[str] = Counter()

    def counting(module: Any, name: str) -> None:
        real = getattr(module, name)

        def call(*arguments: Any, **named: Any) -> Any:
            counted[name] += 1
            return real(*arguments, **named)

        patch.setattr(module, name, call)

    with pytest.MonkeyPatch.context() as patch:
        counting(judging, "judge")
        counting(no_fit, "fullest_where_it_fits")
        start = time.process_time()
        choose(recipe, facts, lambda _: False)
        seconds = time.process_time() - start
    return Timed(counted["judge"], counted["fullest_where_it_fits"], seconds)


@pytest.mark.parametrize(("name", "model", "gpu", "nodes", "rows", "run"), SEARCHES)
def test_a_search_is_as_fast_as_it_says(
    name: str, model: str, gpu: str, nodes: int, rows: int, run: str, tmp_path: Path
) -> None:
    timed = search(tmp_path, model, gpu, nodes, rows, run)
    print(f"\n{name}, {model}: {timed}")
    assert timed.seconds < ROOM * MOST_SECONDS
    every = timed.judged + timed.looked_at
    assert timed.seconds < ROOM * MOST_SECONDS_OF_1000 * max(1.0, every / 1000)
    assert timed.looked_at <= no_fit.MOST_JUDGED


MOST_SECONDS_OF_CHANGES = 2.0


def time_changes(folder: Path, model: str, gpu: str, nodes: int, rows: int) -> float:
    """Processor seconds of what would change the choice, of which there are eight searches on a cluster."""
    prompts = ", ".join(f"p{index}" for index in range(rows))
    file = folder / "job.yaml"
    file.write_text(RECIPE.format(model=model, gpu=gpu, devices=8, nodes=nodes, prompts=prompts, run=""), "utf-8")
    compiled = compile_recipe(file)
    assert compiled.recipe is not None
    assert compiled.facts is not None
    start = time.process_time()
    found = list(changes(compiled.recipe, compiled.facts))
    seconds = time.process_time() - start
    assert len(found) >= 7
    return seconds


@pytest.mark.parametrize("model", ["black-forest-labs/FLUX.2-dev", "Wan-AI/Wan2.1-T2V-14B-Diffusers"])
def test_what_would_change_the_choice_of_a_cluster_is_fast(model: str, tmp_path: Path) -> None:
    seconds = time_changes(tmp_path, model, "h100-sxm-80gb", 64, 512)
    print(f"\nchanges, {model}: {seconds:.2f} s")
    assert seconds < ROOM * MOST_SECONDS_OF_CHANGES


def main() -> None:
    """Print the table of the page."""
    print("| search | model | candidates | looked at for a change | seconds | of 1,000 |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, model, gpu, nodes, rows, run in SEARCHES:
            runs = [search(Path(folder), model, gpu, nodes, rows, run) for _ in range(3)]
            best = min(runs, key=lambda timed: timed.seconds)
            every = best.judged + best.looked_at
            short = model.rpartition("/")[2]
            each = f"{1000 * best.seconds / every:.2f}"
            print(f"| {name} | {short} | {best.judged} | {best.looked_at or ''} | {best.seconds:.2f} | {each} |")
        for model in ("black-forest-labs/FLUX.2-dev", "Wan-AI/Wan2.1-T2V-14B-Diffusers"):
            least = min(time_changes(Path(folder), model, "h100-sxm-80gb", 64, 512) for _ in range(3))
            print(f"| `explain`, 64 nodes, 512 prompts | {model.rpartition('/')[2]} | | | {least:.2f} | |")


if __name__ == "__main__":
    main()
