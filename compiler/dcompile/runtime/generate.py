"""Makes the pictures of this replica's rows; the same picture for a row under every plan."""

from __future__ import annotations

import inspect
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_origin

import numpy as np
import torch

from dcompile.runtime import outputs, pictures
from dcompile.runtime.errors import RunError
from dcompile.runtime.progress import Reporter
from dcompile.runtime.ranks import Ranks
from dcompile.runtime.todo import Todo, todo_of

Row = dict[str, Any]


def own_rows(program: dict[str, Any], ranks: Ranks) -> list[Row]:
    """The rows of this rank's replica: by Accelerate where `data` is the only axis, else by the mesh coordinate.

    Raises:
        RunError: where Accelerate's split is not the plan's.
    """
    rows = {row["index"]: row for row in program["run"]["rows"]}
    share = program["run"]["shares"][ranks.data_coordinate]
    if ranks.world > 1 and ranks.data_degree == ranks.world:
        from accelerate import PartialState

        state = PartialState(cpu=program["device_kind"] == "cpu")
        with state.split_between_processes(list(rows)) as mine:
            if list(mine) != share:
                raise RunError(f"Accelerate gives rank {ranks.rank} the rows {list(mine)}, and the plan {share}")
    return [rows[index] for index in share]


@dataclass(frozen=True)
class Share:
    """What this rank has to make. `total` counts the pictures of all replicas that are not complete."""

    todo: Todo
    rows: list[Row]
    total: int


def share_of(program: dict[str, Any], root: Path, ranks: Ranks, *, overwrite: bool) -> Share:
    """This rank's rows that are not complete yet; `total` is the same on every rank, so that all of them load or none.

    Raises:
        RunError: where the ranks do not see the same files, or the output folder cannot be written to.
    """
    todo = todo_of(program, root)
    if len(set(ranks.gather(todo.content))) > 1:
        raise RunError("the model's, an adapter's or an input picture's files are not the same for all ranks")
    folder = Path(program["output"]["dir"])
    if ranks.is_writer:
        outputs.prepare(folder)
    pending = ranks.agree(todo.pending(folder, overwrite=overwrite) if ranks.is_writer else None)
    rows = [row for row in own_rows(program, ranks) if row["index"] in pending]
    return Share(todo, rows, sum(ranks.gather(len(rows) if ranks.is_writer else 0)))


def generate(
    pipeline: Any, plan: dict[str, Any], root: Path, ranks: Ranks, share: Share, *, plan_digest: str, progress: str
) -> None:
    """Makes and writes what is not complete yet."""
    program = plan["program"]
    call = program["run"]["call"]
    writer = outputs.Writer(Path(program["output"]["dir"]), ranks.data_coordinate)
    base = {"plan_digest": plan_digest, "recipe_digest": plan["recipe_digest"]}
    with Reporter(progress, share.total, len(share.todo.names) - share.total, ranks.rank == 0) as reporter:
        for batch in batches(share.rows, program["run"]["batch"]):
            steps = {**call, **batch[0]["args"]}.get("num_inference_steps")
            reporter.start(steps)
            started = time.monotonic()
            images = pictures.of_call(batch, program["run"], root)
            made, blackened = make_checked(pipeline, batch, call, program["output"]["format"], reporter.step, images)
            seconds = (time.monotonic() - started) / len(batch)
            for row, frames, is_black in zip(batch, made, blackened, strict=True):
                if not ranks.is_writer:
                    continue
                name = share.todo.names[row["index"]]
                metadata = {**base, "content_digest": share.todo.digests[row["index"]]}
                path = writer.save(name, frames, program["output"], metadata)
                flag = {outputs.BLACKENED: True} if is_black else {}
                writer.remember({**_entry(row, frames, name, path, seconds, metadata), **flag})
                done = ranks.store.add("dcompile/pictures", 1) if ranks.store is not None else reporter.done + 1
                reporter.finish(done, name, seconds)
        ranks.gather(None)
        reporter.close()


def batches(rows: list[Row], size: int) -> list[list[Row]]:
    """Neighbouring rows that one call can make: equal arguments and pictures, all or none with a negative prompt."""
    made: list[list[Row]] = []
    for row in rows:
        last = made[-1] if made else []
        alike = last and all(
            (row["args"], row.get("images"), row["negative_prompt"] is None)
            == (other["args"], other.get("images"), other["negative_prompt"] is None)
            for other in last
        )
        if alike and len(last) < size:
            last.append(row)
        else:
            made.append([row])
    return made


def make(
    pipeline: Any,
    batch: list[Row],
    call: dict[str, Any],
    file_format: str,
    on_step: Any = None,
    images: Sequence[Any] = (),
) -> list[Any]:
    """One call of the pipeline; a PIL image or a list of frames for each row of the batch."""
    return make_checked(pipeline, batch, call, file_format, on_step, images)[0]


def make_checked(
    pipeline: Any,
    batch: list[Row],
    call: dict[str, Any],
    file_format: str,
    on_step: Any = None,
    images: Sequence[Any] = (),
) -> tuple[list[Any], list[bool]]:
    """As `make`, and for each row whether the pipeline's safety checker has made its picture black."""
    accepted = inspect.signature(pipeline.__call__).parameters
    given = {**call, **batch[0]["args"]}
    arguments = {name: _as_called(name, value, accepted, len(batch)) for name, value in given.items()}
    generators = [torch.Generator("cpu").manual_seed(row["seed"]) for row in batch]
    arguments["prompt"] = [row["prompt"] for row in batch] if len(batch) > 1 else batch[0]["prompt"]
    if batch[0]["negative_prompt"] is not None:
        negative = [row["negative_prompt"] for row in batch]
        arguments["negative_prompt"] = negative if len(batch) > 1 else negative[0]
    if images:
        arguments["image"] = images[0] if len(images) == 1 else list(images)
    arguments["generator"] = generators if len(batch) > 1 else generators[0]
    if on_step is not None and "callback_on_step_end" in accepted:
        arguments["callback_on_step_end"] = _step_counter(on_step)
    arguments.setdefault("output_type", "pil")
    reset_global_generators(batch[0]["seed"])
    # Not `inference_mode`: in it every operation of a DTensor is decomposed and its sharding found anew, which made a
    # quickstart picture under `tensor: 2` take 9 s instead of 1 (torch 2.13, `distributed/tensor/_decompositions.py`).
    with torch.no_grad():
        result = pipeline(**arguments)
    made = next(getattr(result, name) for name in ("images", "image", "frames") if hasattr(result, name))
    if len(made) != len(batch):
        raise RunError(f"the pipeline made {len(made)} results for {len(batch)} rows")
    if file_format != "mp4" and isinstance(made[0], list):
        raise RunError(f"{type(pipeline).__name__} makes a video, and the output's format is `{file_format}`")
    flags = getattr(result, "nsfw_content_detected", None) or getattr(result, "nsfw_detected", None)
    return list(made), [bool(flag) for flag in flags or [False] * len(batch)]


def _as_called(name: str, value: Any, accepted: Mapping[str, inspect.Parameter], pictures: int) -> Any:
    """A value of `run.args` as a script would pass it: YAML has no tuples, and some pipelines do not repeat a second
    text for every picture of a call (`pipeline_stable_diffusion_xl.py:380`)."""
    if pictures > 1 and isinstance(value, str) and name.removeprefix("negative_").startswith("prompt_"):
        return [value] * pictures
    wanted = accepted[name].annotation if name in accepted else None
    takes = {get_origin(kind) or kind for kind in (wanted, *get_args(wanted))}
    return tuple(value) if isinstance(value, list) and tuple in takes and list not in takes else value


def reset_global_generators(seed: int) -> None:
    """The same global state on every rank before each picture: not every pipeline hands its generator on."""
    torch.manual_seed(seed)
    np.random.seed(seed % 2**32)
    random.seed(seed)


def _step_counter(on_step: Any) -> Any:
    def count(pipeline: Any, step: int, timestep: Any, tensors: dict[str, Any]) -> dict[str, Any]:
        on_step(getattr(pipeline, "num_timesteps", None))
        return tensors

    return count


def _entry(row: Row, frames: Any, name: str, path: Path, seconds: float, metadata: dict[str, str]) -> dict[str, Any]:
    first = frames if hasattr(frames, "getexif") else frames[0]  # a picture, or the first frame of a video
    size = list(first.size) if hasattr(first, "getexif") else [first.shape[1], first.shape[0]]
    return {
        "index": row["index"],
        **({"id": row["id"]} if "id" in row else {}),
        "prompt": row["prompt"],
        **({"images": [picture["path"] for picture in row["images"]]} if "images" in row else {}),
        "seed": row["seed"],
        "size": size,
        "file": name,
        "sha256": outputs.file_digest(path),
        "seconds": round(seconds, 3),
        "plan_digest": metadata["plan_digest"],
        "content_digest": metadata["content_digest"],
    }
