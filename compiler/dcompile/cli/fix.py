"""`check --fix`: the edits that diagnostics carry, made in the text itself, so that comments and order stay."""

from __future__ import annotations

import difflib
import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dcompile.cli.entries import Edit, Entries
from dcompile.cli.render import Finding, in_order, locate
from dcompile.core.diagnostics import Add, Diagnostic, Move, Remove, Severity, dotted
from dcompile.core.files import write_whole
from dcompile.core.safe_text import printable, redact
from dcompile.driver import Compiled
from dcompile.recipe.sections import takes_only_numbers

MAX_ROUNDS = 20
MOST_TRIED = 20
_BREAK = re.compile(r"\r\n|\r|\n")
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Change:
    """One edit that was made."""

    code: str
    line: int
    column: int
    old: str
    new: str

    def __str__(self) -> str:
        """For the user: the place, what stood there, and what stands there now."""
        old, new = (printable(redact(text)) for text in (self.old, self.new))
        what = f"`{old}` -> `{new}`" if old and new else f"`{old}` deleted" if old else f"`{new}` added"
        return f"{self.line}:{self.column}: {self.code} {what}"


@dataclass(frozen=True)
class _Mend:
    """What one diagnostic asks for: edits of the text, and how to say so."""

    edits: tuple[Edit, ...]
    change: Change


def fixed(file: str, text: bytes, judge: Callable[[bytes], Compiled]) -> tuple[bytes, list[Change]]:
    """A recipe's text with every edit made for which there is exactly one right way, and what was changed.

    An edit is taken back where its diagnostic stays, or where it brings an error that was not there.

    Args:
        file: the recipe's name; findings in other files (bases, `--set`) are left.
        text: its bytes.
        judge: compiles a text in the file's place.
    """
    changes: list[Change] = []
    compiled = judge(text)
    for _ in range(MAX_ROUNDS):
        mends = _mends(file, text, compiled)
        # All at once; where one of them spoils that, one after the other.
        for some in (mends, *([one] for one in mends[:MOST_TRIED] if len(mends) > 1)):
            candidate, made = _apply(text, some)
            if not made or candidate == text:
                continue
            after = judge(candidate)
            if _is_better((compiled, text), (after, candidate), Counter(change.code for change in made)):
                text, compiled = candidate, after
                changes += made
                break
        else:
            break
    return text, changes


def _is_better(old: tuple[Compiled, bytes], new: tuple[Compiled, bytes], made: Counter[str]) -> bool:
    """Whether edits did what they were made for, and nothing else."""
    (before, old_text), (after, new_text) = old, new
    if _depth(before) != _depth(after):
        return _depth(before) < _depth(after)
    if _left(before, old_text) != _left(after, new_text):
        return _left(before, old_text) > _left(after, new_text)
    was, now = (Counter(item.code for item in compiled.diagnostics) for compiled in (before, after))
    if any(now[code] > was[code] - count for code, count in made.items()):
        return False
    errors = Counter(item.code for item in before.diagnostics if item.severity is Severity.ERROR)
    fresh = Counter(item.code for item in after.diagnostics if item.severity is Severity.ERROR and not _waits(item))
    return fresh <= errors


def _depth(compiled: Compiled) -> int:
    """How many of the stages a recipe got through."""
    return sum(found is not None for found in (compiled.document, compiled.recipe, compiled.facts, compiled.checked))


def _waits(item: Diagnostic) -> bool:
    """Whether a rule is asked only where the others are content: fit, and the rows of a prompt file."""
    return item.code.startswith("DC5") or item.message.startswith("picture ")


def _left(compiled: Compiled, text: bytes) -> tuple[int, int]:
    """What edits of the text can still mend: findings about it, and tabs (of which a line reports one)."""
    return sum(item.code.startswith(("DC1", "DC2", "DC35")) for item in compiled.diagnostics), text.count(b"\t")


def _is_fixable(diagnostic: Diagnostic) -> bool:
    if diagnostic.fix is None:
        return False
    return diagnostic.code != "DC117" or takes_only_numbers(diagnostic.path)


def _mends(file: str, text: bytes, compiled: Compiled) -> list[_Mend]:
    """What every diagnostic of the file itself asks for, in the order of the text."""
    decoded = _decoded(text)
    if decoded is None:
        return []
    findings = locate([item for item in compiled.diagnostics if _is_fixable(item)], compiled.document, file, False)
    own = in_order([finding for finding in findings if finding.file == file])
    starts = [0, *(match.end() for match in _BREAK.finditer(decoded))]
    entries: Entries | None = None
    found = []
    for finding in own:
        if isinstance(finding.diagnostic.fix, str):
            mend = _replacement(finding, decoded, starts)
        else:
            try:
                entries = entries or Entries(decoded)
            except ValueError:
                continue
            mend = _of_entries(finding, entries)
        if mend is not None:
            found.append(mend)
    return found


def _decoded(text: bytes) -> str | None:
    try:
        return text.removeprefix(_BOM).decode("utf-8")
    except UnicodeDecodeError:
        return None


def _replacement(finding: Finding, text: str, starts: list[int]) -> _Mend | None:
    """Another text in the place of what a finding points at."""
    start, end = _stretch(finding, starts)
    new, old, span = str(finding.diagnostic.fix), text[start:end], finding.span
    # What stands in `|` and `>`, or comes from a variable, is not written there as it is read.
    if span.line != span.end_line or old[:1] in ("|", ">") or ("${" in old and finding.diagnostic.path):
        return None
    if not new:
        start -= len(text[:start]) - len(text[:start].rstrip(" "))
    return _Mend(((start, end, new),), Change(finding.diagnostic.code, span.line, span.column, old, new))


def _of_entries(finding: Finding, entries: Entries) -> _Mend | None:
    """Entries that go, move or are added."""
    fix, path, span = finding.diagnostic.fix, finding.diagnostic.path, finding.span
    old, new, edits = entries.shown(path), "", None
    if isinstance(fix, Remove):
        edits = entries.take_out(path)
    elif isinstance(fix, Move):
        edits, new = entries.move(path, fix.to), f"{dotted(fix.to)}{old[len(str(path[-1])) :]}"
    elif isinstance(fix, Add):
        old, new = "", f"{dotted(fix.to)}: {fix.text}"
        edits = entries.put_in(fix.to, fix.text, is_first=fix.is_first)
    if edits is None:
        return None
    return _Mend(tuple(edits), Change(finding.diagnostic.code, span.line, span.column, old, new))


def _apply(text: bytes, mends: Sequence[_Mend]) -> tuple[bytes, list[Change]]:
    """The text with the edits made; of two that overlap the earlier one."""
    decoded, made = _decoded(text) or "", []
    taken: list[Edit] = []
    for mend in mends:
        if all(end <= start or last <= first for first, last, _ in mend.edits for start, end, _ in taken):
            taken += mend.edits
            made.append(mend.change)
    for start, end, new in sorted(taken, reverse=True):
        decoded = decoded[:start] + new + decoded[end:]
    return (_BOM if text.startswith(_BOM) else b"") + decoded.encode(), made


def _stretch(finding: Finding, starts: list[int]) -> tuple[int, int]:
    """Where a finding starts and ends in the text."""
    span = finding.span
    first, last = (starts[min(line, len(starts)) - 1] for line in (span.line, span.end_line))
    return first + span.column - 1, last + span.end_column - 1


def difference(file: str, old: bytes, new: bytes) -> str:
    """What changes, as a unified diff."""
    before, after = (text.decode("utf-8", "replace").splitlines(keepends=True) for text in (old, new))
    return redact("".join(difflib.unified_diff(before, after, file, file)))


def write(file: Path, text: bytes) -> None:
    """Write a recipe whole, under another name first; a link stays a link, and the file keeps its mode.

    Raises:
        OSError: where it cannot be written; the old text is there still.
    """
    target = Path(os.path.realpath(file))
    write_whole(target, text, target.stat().st_mode & 0o7777)
