"""Makes the pictures of this replica's rows; the same picture for a row under every plan."""

from __future__ import annotations

import inspect
import random
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args, get_origin

import numpy as np
import torch

from dcompile.runtime import outputs, pictures
from dcompile.runtime.errors import RunError
from dcompile.runtime.progress import Reporter
from dcompile.runtime.ranks import Ranks

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


def generate(
    pipeline: Any, plan: dict[str, Any], root: Path, ranks: Ranks, *, plan_digest: str, overwrite: bool, progress: str
) -> None:
    """Makes and writes what is not complete yet, and the manifest."""
    program = plan["program"]
    folder = Path(program["output"]["dir"])
    content = outputs.model_content(program, root)
    seen = pictures.picture_digests(program["run"]["rows"], root)
    if len(set(ranks.gather(outputs.digest([content, seen])))) > 1:
        raise RunError("the model's, an adapter's or an input picture's files are not the same for all ranks")
    call = program["run"]["call"]
    digests = {row["index"]: outputs.content_digest(content, call, row, seen) for row in program["run"]["rows"]}
    pending = ranks.agree(_pending(program, folder, digests, overwrite) if ranks.is_writer else None)
    rows = own_rows(program, ranks)
    counts = ranks.gather(sum(row["index"] in pending for row in rows) if ranks.is_writer else 0)
    total, every = sum(counts), len(program["run"]["rows"])
    writer = outputs.Writer(folder, ranks.data_coordinate)
    base = {"plan_digest": plan_digest, "recipe_digest": plan["recipe_digest"]}
    with Reporter(progress, total, every - total, ranks.rank == 0) as reporter:
        for batch in batches([row for row in rows if row["index"] in pending], program["run"]["batch"]):
            steps = {**call, **batch[0]["args"]}.get("num_inference_steps")
            reporter.start(steps)
            started = time.monotonic()
            images = pictures.load_pictures(batch[0], root)
            made = make(pipeline, batch, call, program["output"]["format"], reporter.step, images)
            seconds = (time.monotonic() - started) / len(batch)
            for row, frames in zip(batch, made, strict=True):
                if not ranks.is_writer:
                    continue
                name = outputs.file_name(program["output"], row)
                metadata = {**base, "content_digest": digests[row["index"]]}
                path = writer.save(name, frames, program["output"], metadata)
                writer.remember(_entry(row, frames, name, path, seconds, metadata))
                done = ranks.store.add("dcompile/pictures", 1) if ranks.store is not None else reporter.done + 1
                reporter.finish(done, name, seconds)
        ranks.gather(None)
        reporter.close()
    if ranks.rank == 0:
        known = outputs.known_files(folder)
        names = [(row["index"], outputs.file_name(program["output"], row)) for row in program["run"]["rows"]]
        outputs.write_manifest(folder, [{**known[name], "index": index} for index, name in names])
    ranks.gather(None)


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
    return list(made)


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


def _pending(program: dict[str, Any], folder: Path, digests: dict[int, str], overwrite: bool) -> set[int]:
    rows = program["run"]["rows"]
    names = {row["index"]: outputs.file_name(program["output"], row) for row in rows}
    if len(set(names.values())) < len(names):
        raise RunError(f"output.name `{program['output']['name']}` gives two rows the same file")
    outputs.prepare(folder)
    if overwrite:
        return set(names)
    known = outputs.known_files(folder)
    return {index for index, name in names.items() if not outputs.is_complete(folder, name, digests[index], known)}


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
