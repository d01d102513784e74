"""Names, digests and shares, without processes."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny_models as tiny
from accelerate import PartialState
from dcompile.runtime import generate, outputs
from dcompile.runtime.errors import RunError, is_echo, sentence_for

ROW = {"index": 3, "seed": 42, "prompt": "A red  fox, Ötzi/../x", "negative_prompt": None, "args": {}}


def test_names_come_from_the_template() -> None:
    output = {"name": "{prompt_slug}-{seed}-{index:05d}", "format": "png"}
    assert outputs.file_name(output, ROW) == "a-red-fox-otzi-x-42-00003.png"
    assert outputs.file_name({"name": "{id}", "format": "png"}, {**ROW, "id": "fox/1"}) == "fox/1.png"


@pytest.mark.parametrize("name", ["../{seed}", "/tmp/{seed}", "{nothing}", "a/../../b", "{index:zz}"])
def test_no_name_leads_out_of_the_folder(name: str) -> None:
    with pytest.raises(RunError, match=r"output\.name"):
        outputs.file_name({"name": name, "format": "png"}, ROW)


def test_content_is_not_the_way_it_is_split(root: Path) -> None:
    def digest(plan: dict) -> str:
        program = plan["program"]
        content = outputs.model_content(program, root)
        return outputs.content_digest(content, program["run"]["call"], program["run"]["rows"][0])

    one = tiny.plan("flux")
    split = tiny.plan("flux", axes={"ulysses": 2}, components={"transformer": {"context": tiny.context_layout(2)}})
    more_steps = tiny.plan("flux", call={"num_inference_steps": 30})
    assert digest(one) == digest(split)
    assert digest(one) != digest(more_steps)


@pytest.mark.parametrize(("rows", "replicas"), [(17, 8), (3, 8), (8, 2), (1, 1), (5, 3)])
def test_shares_are_accelerates(rows: int, replicas: int) -> None:
    shares = tiny.plan("flux", axes={"data": replicas}, rows=rows)["program"]["run"]["shares"]
    state = PartialState(cpu=True)
    place = state.num_processes, state.process_index, state.distributed_type
    try:
        for index, share in enumerate(shares):
            state.num_processes, state.process_index = replicas, index
            with state.split_between_processes(list(range(rows))) as mine:
                assert mine == share
    finally:
        state.num_processes, state.process_index, state.distributed_type = place


def test_a_batch_holds_rows_that_one_call_can_make() -> None:
    rows = [{**ROW, "index": index, "args": {"height": 64} if index == 2 else {}} for index in range(5)]
    assert [[row["index"] for row in batch] for batch in generate.batches(rows, 2)] == [[0, 1], [2], [3, 4]]


def test_errors_are_sentences() -> None:
    assert sentence_for(OSError(28, "No space left on device", "out/1.png")).startswith("the disk is full")
    assert is_echo(RuntimeError("[gloo] Connection closed by peer [127.0.0.1]:1"))
    assert not is_echo(RunError("the weight file `x` is missing"))
