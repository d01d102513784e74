"""Input pictures: the size that a PNG, JPEG or WebP file says in its header. Standard library only.

Turned as the runtime turns them: a JPEG of a phone lies on its side and says so (EXIF, tag 0x0112).
Sources: PNG 3rd edition 5.6 and 11.3.4.4, JPEG (ITU T.81) B.2, Exif 2.32 4.6.2, RFC 9649 (WebP).
"""

from __future__ import annotations

import stat
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dcompile.core.diagnostics import Diagnostic, Severity, bounded
from dcompile.core.diagnostics import Path as FieldPath
from dcompile.facts.prompts import MAX_SHAPES, Row
from dcompile.recipe.model import Recipe

MAX_PIXELS = 89_478_485
"""Above it Pillow warns of a decompression bomb, and of twice as many it refuses (`Image.MAX_IMAGE_PIXELS`)."""
MAX_FILE_BYTES = 256 * 2**20
_HEADER_BYTES = 2**20
_ORIENTATION = 0x0112
# Start-of-frame markers; the others of this range are tables (C4), extensions (C8) and arithmetic coding (CC).
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_WITHOUT_LENGTH = frozenset((0x01, *range(0xD0, 0xD9)))


class PictureError(Exception):
    """A picture that cannot be used: a sentence, and what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


@dataclass(frozen=True, slots=True)
class Picture:
    """An input picture as the pipeline gets it: `name` as the recipe writes it, sides in pixels, already turned."""

    name: str
    height_px: int
    width_px: int


def read_picture(root: Path, name: str) -> Picture:
    """The size of a picture, from the first mebibyte of its file.

    Args:
        root: the recipe's folder, where relative names start.

    Raises:
        PictureError: where the file is missing, no picture of the three kinds, or too large.
    """
    path = root / name
    try:
        state = path.stat()
        if not stat.S_ISREG(state.st_mode):
            raise PictureError(f"`{name}` is no file", "name a .png, .jpg or .webp file")
        if state.st_size > MAX_FILE_BYTES:
            raise PictureError(f"`{name}` is larger than {MAX_FILE_BYTES >> 20} MiB", "make it smaller")
        with path.open("rb") as file:
            head = file.read(_HEADER_BYTES)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise PictureError(f"`{name}` cannot be read: {why}", "the path is relative to the recipe") from None
    height, width = _size(name, head)
    if not height or not width:
        raise PictureError(f"`{name}` says that it is {width}x{height} pixels", "save the picture again")
    if height * width > MAX_PIXELS:
        message = f"`{name}` has {height * width:,} pixels, and Pillow takes {MAX_PIXELS:,}"
        raise PictureError(message, "make it smaller; pipelines scale it down anyway")
    return Picture(name, height, width)


def _size(name: str, head: bytes) -> tuple[int, int]:
    """Height and width, turned."""
    try:
        if head.startswith(b"\x89PNG\r\n\x1a\n"):
            size, exif = _png(head)
        elif head.startswith(b"\xff\xd8\xff"):
            size, exif = _jpeg(head)
        elif head[:4] == b"RIFF" and head[8:12] == b"WEBP":
            size, exif = _webp(head)
        else:
            raise PictureError(f"`{name}` is neither PNG nor JPEG nor WebP", "save the picture as one of them")
    except (struct.error, IndexError, StopIteration):
        message = f"`{name}` is cut off or damaged: its header says no size"
        raise PictureError(message, "copy or save the picture again") from None
    return size[::-1] if _orientation(exif) >= 5 else size


def _png(head: bytes) -> tuple[tuple[int, int], bytes]:
    if head[12:16] != b"IHDR":
        raise IndexError
    width, height = struct.unpack_from(">II", head, 16)
    exif, at = b"", 8
    while at + 8 <= len(head):
        (length,) = struct.unpack_from(">I", head, at)
        kind = head[at + 4 : at + 8]
        if kind == b"eXIf":
            exif = head[at + 8 : at + 8 + length]
        if kind == b"IDAT" and exif:
            break
        at += 12 + length
    return (height, width), exif


def _jpeg(head: bytes) -> tuple[tuple[int, int], bytes]:
    exif = b""
    for marker, at, length in _segments(head):
        if marker == 0xE1 and head[at : at + 6] == b"Exif\x00\x00" and not exif:
            exif = head[at + 6 : at + length]
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", head, at + 1)
            return (height, width), exif
    raise IndexError


def _segments(head: bytes) -> Iterator[tuple[int, int, int]]:
    """Marker, start and length of each segment before the coded picture."""
    at = 2
    while True:
        while head[at] != 0xFF or head[at + 1] in (0x00, 0xFF):
            at += 1
        marker = head[at + 1]
        at += 2
        if marker in _WITHOUT_LENGTH:
            continue
        if marker == 0xDA:
            return
        (length,) = struct.unpack_from(">H", head, at)
        yield marker, at + 2, length - 2
        at += max(2, length)


def _webp(head: bytes) -> tuple[tuple[int, int], bytes]:
    kind = head[12:16]
    if kind == b"VP8 ":
        width, height = (side & 0x3FFF for side in struct.unpack_from("<HH", head, 26))
        return (height, width), b""
    if kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", head, 21)
        return ((bits >> 14 & 0x3FFF) + 1, (bits & 0x3FFF) + 1), b""
    if kind != b"VP8X":
        raise IndexError
    width = int.from_bytes(head[24:27], "little") + 1
    height = int.from_bytes(head[27:30], "little") + 1
    exif, at = b"", 12
    while at + 8 <= len(head):
        (length,) = struct.unpack_from("<I", head, at + 4)
        if head[at : at + 4] == b"EXIF":
            exif = head[at + 8 : at + 8 + length].removeprefix(b"Exif\x00\x00")
        at += 8 + length + length % 2
    return (height, width), exif


def _orientation(exif: bytes) -> int:
    """How a picture is turned, 1 to 8; 1 where nothing readable says so. From 5 on height and width change places."""
    order = {b"II": "<", b"MM": ">"}.get(exif[:2])
    if order is None:
        return 1
    try:
        (at,) = struct.unpack_from(f"{order}I", exif, 4)
        (entries,) = struct.unpack_from(f"{order}H", exif, at)
        for number in range(entries):
            tag, kind = struct.unpack_from(f"{order}HH", exif, at + 2 + 12 * number)
            if tag == _ORIENTATION and kind == 3:
                (value,) = struct.unpack_from(f"{order}H", exif, at + 10 + 12 * number)
                return int(value) if 1 <= value <= 8 else 1
    except struct.error:
        return 1
    return 1


def read_pictures(recipe: Recipe, rows: Sequence[Row], root: Path) -> tuple[dict[str, Picture], tuple[Diagnostic, ...]]:
    """Every input picture of a job, each file looked at once.

    Emits: DC360 for a picture that cannot be used.
    """
    wanted: dict[str, FieldPath] = {
        name: ("run", "images", index) for index, name in enumerate(recipe.run.images or ())
    }
    for row in rows:
        for name in row.images or ():
            wanted.setdefault(name, ("run", "prompts"))
    found: dict[str, Picture] = {}
    faults: list[Diagnostic] = []
    for name, path in wanted.items():
        try:
            found[name] = read_picture(root, name)
        except PictureError as error:
            faults.append(Diagnostic("DC360", Severity.ERROR, error.message, error.hint, path))
    sizes = {name: (picture.height_px, picture.width_px) for name, picture in found.items()}
    shapes = {tuple(sizes.get(name) for name in row.images) for row in rows if row.images}
    if len(shapes) > MAX_SHAPES:
        message = f"the rows' pictures have more than {MAX_SHAPES} different sizes"
        faults.append(Diagnostic("DC360", Severity.ERROR, message, "make several jobs of it", ("run", "prompts")))
    return found, tuple(bounded(faults))
