"""Pictures and videos on disk: whole or not at all, named by a template, and recorded in `manifest.json`."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from dcompile.core import naming
from dcompile.runtime.errors import RunError

BLACKENED = "nsfw_content_detected"
"""In the manifest: the safety checker made this picture black. By diffusers' own word."""
MOST_NAMED = 10
_PIL_FORMATS = {"png": "PNG", "jpg": "JPEG", "webp": "WEBP"}


def file_name(output: dict[str, Any], row: dict[str, Any]) -> str:
    """The file of one row, inside the output folder.

    Raises:
        RunError: where the template is broken or leads out of the folder.
    """
    try:
        return naming.file_name(
            output["name"],
            output["format"],
            index=row["index"],
            seed=row["seed"],
            prompt=row["prompt"],
            row_id=row.get("id"),
        )
    except ValueError as error:
        raise RunError(f"output.name {error}") from error


def digest(value: Any) -> str:
    """The digest of plain data, independent of the order of keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def file_digest(path: Path) -> str:
    """The sha256 of a file's bytes."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            found.update(block)
    return f"sha256:{found.hexdigest()}"


def picture_digests(rows: list[dict[str, Any]], root: Path) -> dict[str, str]:
    """The sha256 of every picture that the rows name, by its name.

    Raises:
        RunError: where a file cannot be read.
    """
    found: dict[str, str] = {}
    for row in rows:
        for picture in row.get("images", ()):
            name = picture["path"]
            if name not in found:
                try:
                    found[name] = file_digest(root / name)
                except OSError as error:
                    raise RunError(f"the picture `{root / name}` cannot be read: {error.strerror}") from error
    return found


def model_content(program: dict[str, Any], root: Path) -> dict[str, Any]:
    """Everything that decides what a picture shows, except its row: not the way it is split."""
    settings = program["pipeline"]
    keys = ("class", "library", "dtype", "id", "path", "omit", "tiling")
    paths = [settings["path"], *(adapter["path"] for adapter in settings["adapters"])]
    paths += [component.get("path") for component in program["components"].values()]
    return {
        "pipeline": settings,
        "components": {
            name: {key: component.get(key) for key in keys} for name, component in program["components"].items()
        },
        "files": {path: _fingerprint(root / path) for path in sorted({path for path in paths if path})},
        "format": program["output"]["format"],
        "fps": program["output"]["fps"],
    }


def content_digest(
    content: dict[str, Any], call: dict[str, Any], row: dict[str, Any], pictures: dict[str, str] | None = None
) -> str:
    """The digest of one picture's content: model, settings, prompt, seed and input pictures, these by their bytes."""
    own = {key: row[key] for key in ("prompt", "negative_prompt", "seed")}
    if "images" in row:
        own["images"] = [(pictures or {})[picture["path"]] for picture in row["images"]]
    return digest({"model": content, "call": {**call, **row["args"]}, "row": own})


def _fingerprint(path: Path) -> list[list[Any]]:
    """Names, sizes, and a digest of both ends of a model's files: tells two trainings apart without reading it all."""
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    found = []
    for file in files:
        size = file.stat().st_size
        with file.open("rb") as stream:
            ends = stream.read(1 << 16)
            stream.seek(max(0, size - (1 << 16)))
            ends += stream.read()
        found.append([file.relative_to(path).as_posix(), size, hashlib.sha256(ends).hexdigest()])
    return found


class Writer:
    """Writes one replica's files and remembers them, so that an interrupted run goes on where it stopped."""

    def __init__(self, folder: Path, replica: int) -> None:
        self.folder = folder
        self._journal = folder / f".manifest-{replica}.jsonl"

    def save(self, name: str, frames: Any, output: dict[str, Any], metadata: dict[str, str]) -> Path:
        """Writes one picture or video under a temporary name, then renames it."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = draft_of(path)
        try:
            if output["format"] == "mp4":
                _write_video(draft, frames, output["fps"])
            else:
                _write_picture(draft, frames, output["format"], metadata)
            with draft.open("rb") as file:
                os.fsync(file.fileno())
            os.replace(draft, path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        return path

    def remember(self, entry: dict[str, Any]) -> None:
        """Adds a finished file to this replica's journal."""
        with self._journal.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry, ensure_ascii=False) + "\n")


def draft_of(path: Path) -> Path:
    """The temporary name of a file that is being written; a later run overwrites what a killed one has left."""
    return path.with_name(f".{path.name}.part")


def prepare(folder: Path) -> None:
    """Makes the output folder and finds out whether it can be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".probe-{os.getpid()}.part"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise RunError(f"cannot write to the output folder `{folder}`: {error.strerror}") from error


def known_files(folder: Path) -> dict[str, dict[str, Any]]:
    """What the manifest and the journals of interrupted runs say about the files in the folder."""
    known: dict[str, dict[str, Any]] = {}
    manifest = folder / "manifest.json"
    if manifest.is_file():
        try:
            known = {entry["file"]: entry for entry in json.loads(manifest.read_text(encoding="utf-8"))}
        except (ValueError, TypeError, KeyError):
            known = {}  # not ours or damaged: every picture is made again
    for journal in sorted(folder.glob(".manifest-*.jsonl")):
        for line in journal.read_text(encoding="utf-8").splitlines():
            if line.endswith("}"):  # the last line of a killed run may be torn
                entry = json.loads(line)
                known[entry["file"]] = entry
    return known


def is_made(folder: Path, name: str, content: str, known: dict[str, dict[str, Any]]) -> bool:
    """Whether a file is there, and is said to be made from the same content."""
    entry = known.get(name)
    return entry is not None and entry["content_digest"] == content and (folder / name).is_file()


def is_whole(folder: Path, name: str, known: dict[str, dict[str, Any]]) -> bool:
    """Whether a file that is there has the bytes that were written."""
    return bool(file_digest(folder / name) == known[name]["sha256"])


def write_manifest(folder: Path, names: dict[int, str]) -> list[dict[str, Any]]:
    """Writes `manifest.json` in prompt order and drops the journals it replaces; where it is right already, nothing.

    Args:
        names: the file of every row, by its index.

    Returns:
        What the manifest holds.
    """
    known = known_files(folder)
    entries = [{**known[name], "index": index} for index, name in sorted(names.items())]
    text = json.dumps(entries, indent=2, ensure_ascii=False) + "\n"
    manifest = folder / "manifest.json"
    if not manifest.is_file() or manifest.read_bytes() != text.encode("utf-8"):
        draft = draft_of(manifest)
        draft.write_text(text, encoding="utf-8")
        os.replace(draft, manifest)
    for journal in folder.glob(".manifest-*.jsonl"):
        journal.unlink()
    return entries


def say_blackened(entries: list[dict[str, Any]]) -> str:
    """A sentence about the pictures that the model's safety checker has made black; nothing where there is none."""
    names = [str(entry["file"]) for entry in entries if entry.get(BLACKENED)]
    if not names:
        return ""
    shown = ", ".join(names[:MOST_NAMED]) + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")
    return f"the model's safety checker made {len(names)} of {len(entries)} pictures black: {shown}"


def _write_picture(path: Path, image: Any, file_format: str, metadata: dict[str, str]) -> None:
    options: dict[str, Any] = {}
    if file_format == "png":
        from PIL.PngImagePlugin import PngInfo

        options["pnginfo"] = PngInfo()
        for key, value in metadata.items():
            options["pnginfo"].add_text(key, value)
    elif file_format == "jpg":
        options["quality"] = 95
    with path.open("wb") as file:
        image.save(file, format=_PIL_FORMATS[file_format], **options)


def _write_video(path: Path, frames: Any, fps: float) -> None:
    try:
        import imageio_ffmpeg
    except ImportError as error:
        raise RunError("mp4 output needs the extra `video`: pip install 'dcompile[video]'") from error
    import numpy as np

    pictures = [np.asarray(frame) for frame in frames]
    if pictures[0].dtype != np.uint8:
        pictures = [(picture.clip(0, 1) * 255).round().astype(np.uint8) for picture in pictures]
    height, width = pictures[0].shape[:2]
    writer = imageio_ffmpeg.write_frames(
        str(path), (width, height), fps=fps, macro_block_size=2, codec="libx264", quality=8,
        output_params=["-f", "mp4"],
    )  # fmt: skip
    writer.send(None)
    for picture in pictures:
        writer.send(np.ascontiguousarray(picture))
    writer.close()
