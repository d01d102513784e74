"""Cases 86 to 93: replicas, prompts, files, running again."""

from __future__ import annotations

import json
from typing import Any

FLUX = "version: 1\nmodel: {id: black-forest-labs/FLUX.1-dev}\n"
SIZE = "height: 512, width: 512"


def gpus(count: int) -> str:
    return f"devices: {{gpu: h200-sxm, per_node: {count}}}\n"


def prompts(count: int) -> str:
    return "[" + ", ".join(f"fox {index}" for index in range(count)) + "]"


def shares(plan: Any) -> list[list[int]]:
    return plan["program"]["run"]["shares"]  # type: ignore[no-any-return]


def test_case_086_seventeen_prompts_on_eight_ranks(compiled: Any) -> None:
    """huggingface/accelerate#2750: the first replica gets one more, and each row is made once."""
    run = f"run: {{prompts: {prompts(17)}, {SIZE}}}\n"
    found = shares(compiled(FLUX + gpus(8) + run + "parallel: {data: 8}").plan_json)
    assert [len(share) for share in found] == [3, 2, 2, 2, 2, 2, 2, 2]
    assert [index for share in found for index in share] == list(range(17))


def test_case_088_padding_hidden_in_the_middle(compiled: Any) -> None:
    """huggingface/accelerate#3485, #3483: nothing is padded; results are files by their row's index."""
    run = f"run: {{prompts: {prompts(4)}, batch: 2, {SIZE}}}\n"
    plan = compiled(FLUX + gpus(2) + run + "parallel: {data: 2}").plan_json
    assert shares(plan) == [[0, 1], [2, 3]]
    assert [row["index"] for row in plan["program"]["run"]["rows"]] == [0, 1, 2, 3]


def test_case_089_the_same_for_every_source_of_prompts(compiled: Any) -> None:
    """huggingface/accelerate#4053: three rows on two replicas are 2 and 1, from a file as from a list."""
    texts = ["a fox", "a boat", "a tree"]
    files = {
        "p.jsonl": "".join(json.dumps({"prompt": text}) + "\n" for text in texts),
        "p.csv": "prompt\n" + "".join(f"{text}\n" for text in texts),
        "p.txt": "".join(f"{text}\n" for text in texts),
    }
    for source in (*files, "[a fox, a boat, a tree]"):
        run = f"run: {{prompts: {source}, {SIZE}}}\n"
        plan = compiled(FLUX + gpus(2) + run + "parallel: {data: 2}", files).plan_json
        assert shares(plan) == [[0, 1], [2]]
        assert [row["prompt"] for row in plan["program"]["run"]["rows"]] == texts


def test_case_090_ranks_overwrite_each_others_files(verdict: Any) -> None:
    """lucidrains/DALLE-pytorch#225, Noble-Lab/casanovo#140: a name that two pictures share is refused, with the part
    that is missing in it."""
    run = f"run: {{prompts: {prompts(8)}, {SIZE}}}\n"
    recipe = FLUX + gpus(8) + run + "parallel: {data: 8}\n"
    found = verdict(recipe + 'output: {dir: out, name: "img.png"}\n')
    assert [(one.code, one.path) for one in found] == [("DC311", "output.name")]
    assert "{index:05d}" in found[0].hint
    assert verdict(recipe + 'output: {dir: out, name: "img-{index}"}\n') == []


def test_case_092_running_again_skips_rows(compiled: Any, verdict: Any) -> None:
    """weichow23/merit#4: the split is over all rows, and one rank says which are complete
    (tests/distributed/test_failures.py::test_running_again_skips_what_is_complete); there is nothing to switch on."""
    run = f"run: {{prompts: {prompts(6)}, {SIZE}}}\n"
    recipe = FLUX + gpus(4) + run + "parallel: {data: 4}\n"
    assert shares(compiled(recipe).plan_json) == [[0, 1], [2, 3], [4], [5]]
    found = verdict(recipe + "output: {resume: true}\n")
    assert [(one.code, one.path) for one in found] == [("DC201", "output.resume")]


def test_case_093_files_sort_by_prompt(compiled: Any) -> None:
    """kohya-ss/sd-scripts#1061: names begin with the row's index in five digits, so they sort as the prompts do."""
    run = f"run: {{prompts: {prompts(12)}, {SIZE}}}\n"
    program = compiled(FLUX + gpus(2) + run + "parallel: {data: 2}").plan_json["program"]
    names = [program["output"]["name"].format(index=row["index"]) for row in program["run"]["rows"]]
    assert names == sorted(names) == [f"{index:05d}" for index in range(12)]
