"""Strict YAML: events of PyYAML in, a `Document` with positions out."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

import yaml

from dcompile.core.diagnostics import MAX_FINDINGS, START, Diagnostic, Path, Span, bounded
from dcompile.source.document import Document, Suppression
from dcompile.source.faults import fault
from dcompile.source.scalars import clip, resolve
from dcompile.source.scan import check_text, decode_text, spot
from dcompile.source.suppressions import WORD, find_suppressions

MAX_DEPTH = 50
MAX_VALUES = 20_000

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MISSING_SPACE = re.compile(r"([A-Za-z_]\w*):(?=[^\s/])")
_UNSPACED = re.compile(r"\s*(?:- )?([A-Za-z_]\w*):(?=[^\s/])")
_ONE_KEY = re.compile(r"\s*(?:- +)?[\w.-]+:\Z")
_ONE_WORD = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:#.*)?\Z")
_UNREADABLE = re.compile("[\x00\ud800-\udfff]")
_INVISIBLE = re.compile("[\u00a0\u200b-\u200f\u2060]")
_TOO_DEEP = (f"the file is nested deeper than {MAX_DEPTH} levels", "no recipe needs that")
_WORDS = (
    ("mapping values are not allowed", "a `:` stands where no key can be", "quote text that holds `: `"),
    ("could not find expected ':'", "a key has no `:` after it", "write `key: value`"),
    ("did not find expected key", "the indentation fits no key above it", "line the key up with its neighbours"),
    ("did not find expected '-' indicator", "an entry of a list is not lined up", "line up the dashes"),
    ("block sequence entries are not allowed", "a list starts where none can be", "start it on a new line"),
    ("found unexpected end of stream", "a quote or bracket is not closed", "close it"),
    ("did not find expected ',' or", "a `[` or `{` is not closed, or a `,` is missing", "close it"),
    (
        "found unknown escape character",
        "the text in double quotes has an unknown escape",
        "write `\\\\` for a backslash",
    ),
    ("did not find expected <document start>", "the text goes on after a whole value", "write `key: value` lines"),
    ("did not find expected node content", "a value is missing", "write one, or quote text that starts so"),
    ("did not find expected comment or line", "text stands on the line of a `|` or `>`", "put the text in quotes"),
    ("did not find expected alphabetic", "text cannot start with `&` or `*`", "put the text in quotes"),
    ("did not find expected whitespace or line break", "text cannot start with `!`", "put the text in quotes"),
    ("found unexpected ':'", "a `:` stands where none can", "write a space after it, or put the text in quotes"),
    ("mapping keys are not allowed", "text cannot start with `? `", "put the text in quotes"),
    ("found character that cannot start any token", "text cannot start with this character", "put the text in quotes"),
    ("found unexpected document indicator", "a document ends inside a text in quotes", "close the quote"),
)

_ENDED = ("did not find expected key", "did not find expected <document start>", "did not find expected '-' indicator")
"""What the parser says of text on the line of a value that is whole already, ..."""
_CLOSING = "}]\"'"
"""... which ended with one of these."""


class _StopError(Exception):
    """What follows cannot be read."""


class _Builder:
    """Makes a document of the events; faults are collected and the value they are about is marked."""

    def __init__(self, text: str, file: str, path: Path = ()) -> None:
        self.text = text
        self.file = file
        self.lines = text.split("\n")
        self.places: list[tuple[int, int]] | None = None
        self.starts: list[int] = []
        self.faults: list[Diagnostic] = []
        self.keys: dict[Path, Span] = {}
        self.values: dict[Path, Span] = {}
        self.texts: dict[Path, str] = {}
        self.faulty: set[Path] = set()
        self.quoted: list[tuple[int, int]] = []
        self.plain: list[tuple[int, int]] = []
        self.count = 0
        self.events: Iterator[Any] = iter(())

    def fault(
        self, code: str, message: str, hint: str, span: Span, path: Path | None = None, *, fix: str | None = None
    ) -> None:
        self.faults.append(fault(code, message, hint, span, self.file, path or (), fix=fix))
        if path is not None:
            self.faulty.add(path)
        if len(self.faults) > MAX_FINDINGS:
            raise _StopError

    def span(self, event: Any) -> Span:
        start, end = event.start_mark, event.end_mark
        block = getattr(event, "flow_style", None) is False or getattr(event, "style", None) in ("|", ">")
        if block:
            width = len(self.lines[start.line]) if start.line < len(self.lines) else start.column
            return Span(start.line + 1, start.column + 1, start.line + 1, max(width, start.column) + 1)
        return Span(start.line + 1, start.column + 1, end.line + 1, end.column + 1)

    def document(self) -> tuple[Any, bool]:
        """The value of the only document, and whether there was one."""
        value, seen = None, False
        self.events = yaml.parse(self.text, Loader=_LOADER)
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                if event.version or event.tags:
                    self.fault("DC116", "directives (`%...`) are not read", "delete the line", self.span(event))
                if seen:
                    self.fault(
                        "DC108",
                        "the file holds several documents",
                        "keep one recipe in a file: delete this `---` and what follows",
                        self.span(event),
                    )
                    raise _StopError
                seen = True
                value = self.node(next(self.events), (), 1)
        return value, seen

    def node(self, event: Any, path: Path | None, depth: int) -> Any:
        """The value that starts with an event. Without a path it is read for its faults only."""
        span = self.span(event)
        if depth > MAX_DEPTH:
            self.fault("DC107", *_TOO_DEEP, span, ())
            raise _StopError
        self.count += 1
        if self.count > MAX_VALUES:
            hint = "put long lists of prompts into a file and name it in `run.prompts`"
            self.fault("DC102", f"the file holds more than {MAX_VALUES} values", hint, span, ())
            raise _StopError
        if isinstance(event, yaml.AliasEvent):
            message = f"`*{clip(str(event.anchor))}` is an alias; recipes have none"
            self.fault("DC113", message, "write the value out, or share it with `extends: base.yaml`", span, path)
            return None
        if path is not None:
            self.values[path] = span
        if event.anchor is not None:
            message = f"`&{clip(event.anchor)}` is an anchor; recipes have none"
            self.fault("DC113", message, "delete it; share values with `extends: base.yaml`", span)
        if event.tag is not None:
            self.fault("DC115", f"`{clip(event.tag)}` is a tag; recipes have none", "delete it", span, path)
        if isinstance(event, yaml.ScalarEvent):
            return self.scalar(event, span, path)
        if isinstance(event, yaml.SequenceStartEvent):
            found: list[Any] = []
            while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
                inner = None if path is None else (*path, len(found))
                found.append(self.node(event, inner, depth + 1))
            return found
        return self.mapping(path, depth)

    def scalar(self, event: Any, span: Span, path: Path | None) -> Any:
        text: str = event.value
        place = (event.start_mark.index, event.end_mark.index)
        (self.quoted if event.style else self.plain).append(place)
        if _UNREADABLE.search(text):
            self.fault("DC104", "the text holds a character that nothing can read", "delete its escape", span, path)
            return None
        if event.style:
            return text
        value, wrong = resolve(text)
        if wrong is not None:
            self.fault(wrong.code, wrong.message, wrong.hint, span, path, fix=wrong.number)
        if path is not None and not isinstance(value, str):
            self.texts[path] = text
        return value

    def mapping(self, path: Path | None, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        first: dict[str, Span] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            span = self.span(event)
            key = self.key(event, span, path, depth)
            inner: Path | None = None if path is None or key is None else (*path, key)
            if key is not None and key in found:
                message = f"`{clip(key)}` is given twice; it is already on line {first[key].line}"
                self.fault("DC111", message, "keep one of the two", span, inner)
                inner = None
            elif key is not None:
                first[key] = span
                if inner is not None:
                    self.keys[inner] = span
            value = self.node(next(self.events), inner, depth + 1)
            if key is not None and key not in found:
                found[key] = value
        return found

    def key(self, event: Any, span: Span, path: Path | None, depth: int) -> str | None:
        """The text of a key, or None with a fault."""
        if isinstance(event, yaml.MappingStartEvent) and event.flow_style and self.at(event, "{"):
            message = "a mapping stands where a key must be; templates (`{{ ... }}`) are not filled in"
            hint = "write the value itself; paths and ids may hold ${NAME}"
            self.fault("DC119", message, hint, span, path)
            self.node(event, None, depth + 1)
            return None
        if not isinstance(event, yaml.ScalarEvent):
            self.fault("DC112", "a key must be text", "write `key: value`", span, path)
            self.node(event, None, depth + 1)
            return None
        if event.anchor is not None or event.tag is not None:
            self.node(event, None, depth)
        return self.key_text(event, span, path)

    def key_text(self, event: Any, span: Span, path: Path | None) -> str | None:
        text: str = event.value
        (self.quoted if event.style else self.plain).append((event.start_mark.index, event.end_mark.index))
        if event.style:
            return text
        if text == "<<":
            hint = "write the keys out, or share them with `extends: base.yaml`"
            self.fault("DC114", "`<<` is a merge key; recipes have none", hint, span, path)
            return None
        if resolve(text) == (None, None):
            what = f"`{text}`" if text else "nothing"
            self.fault("DC112", f"a key must be text, and here it is {what}", "write a name before the `:`", span, path)
            return None
        if (odd := _INVISIBLE.search(text)) is not None:
            message = f"the key `{clip(text)}` holds the invisible character U+{ord(odd[0]):04X}"
            self.fault("DC104", message, "type the key anew with plain spaces", span, path)
            return None
        return text

    def at(self, event: Any, text: str) -> bool:
        return self.text.startswith(text, event.start_mark.index)

    def comments(self) -> dict[int, int]:
        """Where the comment of each line starts (columns from 0), for the lines that have one."""
        found = {}
        start = 0
        for number, line in enumerate(self.lines, 1):
            if "#" in line:
                hashes = (match.start() for match in re.finditer(r"(?<![^\s])#", line))
                column = next((at for at in hashes if self.scalar_at(start + at) is None), None)
                if column is not None:
                    found[number] = column
            start += len(line) + 1
        return found

    def scalar_at(self, index: int) -> tuple[int, int] | None:
        """Start and end of the scalar that a character of the text belongs to."""
        if self.places is None:
            self.places = sorted(self.quoted + self.plain)
            self.starts = [start for start, _ in self.places]
        at = bisect_right(self.starts, index) - 1
        return self.places[at] if at >= 0 and index < self.places[at][1] else None

    def check_tabs(self) -> None:
        """Tabs between values are read by some parsers and not by others."""
        quoted, comments = set(self.quoted), self.comments()
        start = 0
        for number, line in enumerate(self.lines, 1):
            if "\t" in line:
                end = comments.get(number, len(line))
                tabs = (match.start() for match in re.finditer("\t", line[:end]))
                at = next((at for at in tabs if self.scalar_at(start + at) not in quoted), None)
                if at is not None:
                    place = spot(self.text, start + at)
                    self.fault("DC106", "a tab stands between values", "write spaces", place, fix=" ")
            start += len(line) + 1


def _syntax(error: yaml.MarkedYAMLError, text: str, file: str) -> Diagnostic:
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return fault("DC101", "the text is not YAML", "", START, file)
    lines = text.split("\n")
    row, column = mark.line, mark.column
    if row >= len(lines):  # PyYAML ends every text with a line break
        row, column = len(lines) - 1, len(lines[-1])
    span = Span(row + 1, column + 1, row + 1, column + 2)
    line = lines[row]
    indent = line[: len(line) - len(line.lstrip())]
    if "\t" in indent or line[column : column + 1] == "\t":
        column = indent.index("\t") + 1 if "\t" in indent else column + 1
        span = Span(row + 1, column, row + 1, column + 1)
        return fault("DC106", "a tab stands where spaces must", "indent with spaces", span, file)
    problem = error.problem or "it cannot be read"
    if "nesting depth" in problem:
        return fault("DC107", *_TOO_DEEP, span, file)
    if "${" in line[max(0, column - 1) : column + 1]:
        message = "a variable stands without quotes inside `[ ]` or `{ }`"
        return fault("DC101", message, "put the text in quotes: '${NAME}'", span, file)
    if line.startswith("%") and column < 2:
        return fault("DC116", "directives (`%...`) are not read", "delete the line", span, file)
    context = error.context_mark
    if (better := _cause(problem, lines, row, column, context)) is not None:
        message, hint, span = better
        return fault("DC101", message, hint, span, file)
    for start, message, hint in _WORDS:
        if problem.startswith(start):
            if context is not None and context.line != mark.line:
                message += f" (in what starts on line {context.line + 1})"
            return fault("DC101", message, hint, span, file)
    return fault("DC101", f"the text is not YAML: {problem}", "", span, file)


def _cause(problem: str, lines: list[str], row: int, column: int, context: Any) -> tuple[str, str, Span] | None:
    """Message, hint and place of a mistake that lies before the place where the parser stumbled."""

    def at(line: int, start: int) -> Span:
        return Span(line + 1, start + 1, line + 1, start + 2)

    if problem.startswith("could not find expected ':'") and context is not None:
        if (key := _UNSPACED.match(lines[context.line])) is not None:
            return *_no_space(key[1]), at(context.line, key.end(1))
        return "a key has no `:` after it", "write `key: value`", at(context.line, context.column)
    if problem.startswith("found unexpected end of stream") and context is not None:
        return "a quote is not closed", "close it", at(context.line, context.column)
    is_end = not any(line.strip() for line in (lines[row][column:], *lines[row + 1 :]))
    if problem.startswith("did not find expected ',' or") and is_end and context is not None:
        opening = lines[context.line][context.column : context.column + 1]
        return f"this `{opening}` is not closed", "close it", at(context.line, context.column)
    if problem.startswith("mapping values are not allowed") and ": " not in lines[row][:column].split("#")[0]:
        above = next((at for at in range(row - 1, -1, -1) if lines[at].split("#")[0].strip()), None)
        if above is None or not _ONE_KEY.match(lines[row][: column + 1]):
            return None
        if (key := _UNSPACED.match(lines[above])) is not None:
            return *_no_space(key[1]), at(above, key.end(1))
        if (word := _ONE_WORD.match(lines[above])) is not None:
            return "a key has no `:` after it", "write `key: value`", at(above, word.start(1))
        indent = len(lines[row]) - len(lines[row].lstrip())
        message = f"this key lies deeper than line {above + 1}, which has a value of its own already"
        return message, "line the key up with its neighbours", at(row, indent)
    before = lines[row][:column].rstrip()[-1:]
    if problem.startswith(_ENDED) and before in _CLOSING and before:
        return f"text goes on behind a closing {before}", "put the whole value in quotes", at(row, column)
    if problem.startswith("did not find expected ',' or") and lines[row][max(0, column - 1) : column] in ("'", '"'):
        quote = lines[row][column - 1]
        inside = "''" if quote == "'" else '\\"'
        return f"text goes on behind its closing {quote}", f"write {inside} for a {quote} in the text", at(row, column)
    return None


def _no_space(key: str) -> tuple[str, str]:
    return f"`{clip(key)}:` has no space after its colon", f"write `{clip(key)}: ...`"


def parse(text: bytes | str, file: str, *, root: bool = True) -> tuple[Document | None, tuple[Diagnostic, ...]]:
    """Reads a text as strict YAML.

    Args:
        text: the file's bytes or text.
        file: its name, for positions.
        root: whether the value must be a mapping, as in a file.

    Returns:
        The document, and what is wrong with the text. A document is there beside errors where the rest of it can be
        judged; its `faulty` names the values that could not be read.
    """
    decoded, faults = decode_text(text, file)
    if decoded is None or (faults := check_text(decoded, file)):
        return None, tuple(faults)
    builder = _Builder(decoded, file)
    suppressions: tuple[Suppression, ...] = ()
    try:
        value, seen = builder.document()
        if "\t" in decoded:
            builder.check_tabs()
        if f"{WORD}:" in decoded or f"{WORD} ignore" in decoded:
            suppressions, faults = find_suppressions(decoded, file, builder.comments())
            builder.faults += bounded(faults)
    except _StopError:
        return None, bounded(builder.faults)
    except yaml.MarkedYAMLError as error:
        return None, (*builder.faults, _syntax(error, decoded, file))
    except (yaml.YAMLError, ValueError, RecursionError, StopIteration):
        return None, (*builder.faults, fault("DC101", "the text is not YAML", "", START, file))
    if root and (wrong := _root(value, seen, builder)) is not None:
        return None, (*builder.faults, wrong) if () not in builder.faulty else tuple(builder.faults)
    document = Document(
        value,
        builder.keys,
        builder.values,
        file,
        texts=builder.texts,
        faulty=frozenset(builder.faulty),
        suppressions=suppressions,
    )
    return document, tuple(builder.faults)


def _root(value: Any, seen: bool, builder: _Builder) -> Diagnostic | None:
    if isinstance(value, dict) and value:
        return None
    if not seen or value is None or value == {}:
        hint = "`dcompile init` writes a recipe that runs on this machine"
        return fault("DC109", "the file is empty", hint, START, builder.file)
    span = builder.values.get((), START)
    hint = "write `key: value` lines"
    if isinstance(value, str) and (match := _MISSING_SPACE.match(value)) is not None:
        hint = f"write a space after the colon: `{match[1]}: ...`"
    what = "a list" if isinstance(value, list) else "a single value"
    return fault("DC110", f"a recipe is a mapping, and this file is {what}", hint, span, builder.file)
