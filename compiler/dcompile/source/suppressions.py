"""`# dcompile: ignore DC503 -- measured, it fits`: findings that the recipe's author has seen and accepts.

The comment stands at the end of the field's line or alone on the line above it, and names the codes and the reason. It
can silence warnings, advice, and findings about memory (DC5xx), which are estimates that a person may know better; it
cannot silence what is wrong in the text or shape (DC1xx, DC2xx), nor an error of another kind: that job cannot run.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from dataclasses import replace

from dcompile.core.codes import ADVICE, FACTS, MEMORY, PARALLEL
from dcompile.core.diagnostics import Diagnostic, Severity, Span, bounded
from dcompile.source.document import Document, Suppression
from dcompile.source.faults import fault

WORD = "dcompile"
_MARK = re.compile(rf"#\s*{WORD}(?::(?P<said>.*)|\s+ignore\b)")
_CODE = re.compile(r"DC\d{3}\Z")
_EXAMPLE = "write `# dcompile: ignore DC503 -- and the reason`"
_MEMORY = "DC5"
_KNOWN = {*FACTS, *PARALLEL, *MEMORY, *ADVICE}
_NEVER = ("DC1", "DC2", "DC35")


def find_suppressions(
    text: str, file: str, comments: dict[int, int]
) -> tuple[tuple[Suppression, ...], list[Diagnostic]]:
    """The suppressions of a text, and what is wrong with them.

    Args:
        comments: where the comment of a line starts (columns from 0), by the line (from 1).
    """
    found: list[Suppression] = []
    faults: list[Diagnostic] = []
    lines = text.split("\n")
    below, last = {}, len(lines)
    for number in range(len(lines), 0, -1):
        below[number] = last
        line = lines[number - 1].strip()
        last = number if line and not line.startswith("#") else last
    for number, column in comments.items():
        match = _MARK.match(lines[number - 1], column)
        if match is None:
            continue
        span = Span(number, column + 1, number, len(lines[number - 1].rstrip()) + 1)
        codes, wrong = _codes(match["said"])
        if wrong is not None:
            faults.append(fault(*wrong, span, file))
            continue
        alone = not lines[number - 1][:column].strip()
        found.append(Suppression(file, below[number] if alone else number, codes, span))
    return tuple(found), faults


def _codes(text: str | None) -> tuple[tuple[str, ...], tuple[str, str, str] | None]:
    """The codes of what follows `dcompile:`, or code, message and hint of what is wrong with it; None without colon."""
    if text is None:
        return (), ("DC350", "`dcompile ignore` lacks a colon, so it ignores nothing", _EXAMPLE)
    words, dashes, reason = text.strip().partition("--")
    verb, _, listed = words.strip().partition(" ")
    if verb != "ignore":
        return (), ("DC350", f"`dcompile: {verb}` is no instruction; the only one is `ignore`", _EXAMPLE)
    codes = tuple(code for code in re.split(r"[,\s]+", listed.strip()) if code)
    if not codes:
        return (), ("DC350", "`dcompile: ignore` names no code", _EXAMPLE)
    for code in codes:
        if not _CODE.match(code):
            return (), ("DC350", f"`{code}` is no code; codes look like DC503", _EXAMPLE)
        if code.startswith(_NEVER):
            message = f"`{code}` cannot be ignored: it is about the text or the shape of the recipe"
            return (), ("DC352", message, "delete the comment and mend the fault")
        if code not in _KNOWN:
            return (), ("DC350", f"there is no code `{code}`", "take the code from the finding that is to be ignored")
    if not dashes or not reason.strip():
        return (), ("DC350", f"`dcompile: ignore {', '.join(codes)}` gives no reason", _EXAMPLE)
    return codes, None


class Ignored:
    """Which findings a document's comments silence; it keeps in mind which comments were of use."""

    def __init__(self, document: Document) -> None:
        """Sort the comments by their lines."""
        self.document = document
        self.used: set[tuple[Suppression, str]] = set()
        self.at: dict[tuple[str, int], list[Suppression]] = {}
        for item in document.suppressions:
            self.at.setdefault((item.file, item.line), []).append(item)

    def __call__(self, diagnostic: Diagnostic) -> bool:
        """Whether a finding of a rule is silenced."""
        return self._names(diagnostic) and _may_be_ignored(diagnostic)

    def _names(self, diagnostic: Diagnostic) -> bool:
        """Whether a comment is about a finding, whether or not it may silence it."""
        if not self.at:
            return False
        file, span = self.document.position(diagnostic.path, key=diagnostic.is_key)
        about = [item for item in self.at.get((file, span.line), ()) if diagnostic.code in item.codes]
        self.used |= {(item, diagnostic.code) for item in about}
        return bool(about)

    def refused(self, found: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
        """The findings, with a word to those that a comment names in vain."""
        why = "an error like this cannot be ignored"
        return tuple(
            replace(item, hint=f"{item.hint}; {why}" if item.hint else why)
            if self._names(item) and not _may_be_ignored(item)
            else item
            for item in found
        )

    def unused(self, asked: Container[str] | None = None) -> tuple[Diagnostic, ...]:
        """A warning for every code of a comment that silenced nothing. To be asked after the rules have run.

        Args:
            asked: where an error stands, the codes whose rules were really asked; all of them otherwise.
        """
        return bounded(
            Diagnostic(
                "DC351",
                Severity.WARNING,
                f"`{code}` is to be ignored on line {item.line}, which has no such finding",
                "delete the comment, or the code in it",
                (),
                item.span,
                item.file,
                fix="" if len(item.codes) == 1 else None,
            )
            for item in self.document.suppressions
            for code in item.codes
            if (item, code) not in self.used and (asked is None or code in asked)
        )


def _may_be_ignored(diagnostic: Diagnostic) -> bool:
    return diagnostic.severity is not Severity.ERROR or diagnostic.code.startswith(_MEMORY)
