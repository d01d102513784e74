"""What is looked for in a text before YAML sees it: encoding, characters, conflict markers, size."""

from __future__ import annotations

import re

from dcompile.core.diagnostics import Diagnostic, Span
from dcompile.source.faults import fault

MAX_BYTES = 1 << 20

_BAD = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x85\x86-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")
_CONFLICT = re.compile(r"^(<{7}|\|{7}|={7}|>{7})(?: .*)?$", re.MULTILINE)
_UTF16 = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")


def spot(text: str, index: int, length: int = 1) -> Span:
    """The span of some characters of one line."""
    line = text.count("\n", 0, index) + 1
    column = index - text.rfind("\n", 0, index)
    return Span(line, column, line, column + length)


def _plain(text: str) -> str:
    """Without a byte-order mark, and with one kind of line break, so that all count lines alike."""
    text = text.removeprefix("\ufeff")
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def decode_text(data: bytes | str, file: str) -> tuple[str | None, list[Diagnostic]]:
    """The text of a file without its byte-order mark and with `\\n` at each line's end, or None with the reason."""
    start = Span(1, 1, 1, 1)
    if len(data) > MAX_BYTES:
        return None, [
            fault(
                "DC102",
                f"the file is larger than {MAX_BYTES} bytes, the most that a recipe may have",
                "put long lists of prompts into a .txt, .jsonl or .csv file and name it in `run.prompts`",
                start,
                file,
            )
        ]
    if isinstance(data, str):
        return _plain(data), []
    if data.startswith(_UTF16) or (len(data) >= 2 and 0 in (data[0], data[1])):
        return None, [fault("DC103", "the file is UTF-16 or UTF-32, not UTF-8", "save it as UTF-8", start, file)]
    try:
        return _plain(data.decode("utf-8")), []
    except UnicodeDecodeError as error:
        before = _plain(data[: error.start].decode("utf-8", "replace"))
        span = spot(before + " ", len(before))
        message = f"byte 0x{data[error.start]:02x} at offset {error.start} is not UTF-8"
        return None, [fault("DC103", message, "save the file as UTF-8", span, file)]


def check_text(text: str, file: str) -> list[Diagnostic]:
    """Faults that make it pointless to parse the text."""
    conflicts = list(_CONFLICT.finditer(text))
    if any(match[1] in ("<<<<<<<", ">>>>>>>") for match in conflicts):
        first = conflicts[0]
        return [
            fault(
                "DC105",
                f"the file has an unresolved merge conflict (`{first[1]}`)",
                "choose a side and delete the lines with the markers",
                spot(text, first.start(), 7),
                file,
            )
        ]
    found = []
    for match in _BAD.finditer(text):
        name = f"U+{ord(match[0]):04X}"
        escape = f'; where it is meant, write it as an escape in double quotes, such as "\\u{name[2:]}"'
        found.append(
            fault(
                "DC104",
                f"the character {name} may not stand in a recipe",
                "delete it" + (escape if match[0] != "\0" else ""),
                spot(text, match.start()),
                file,
            )
        )
        if len(found) == 20:
            break
    return found
