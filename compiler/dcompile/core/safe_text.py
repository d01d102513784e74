"""Texts of strangers made safe to print: no tokens, nothing that a terminal obeys, no page of one value."""

from __future__ import annotations

import re

TOKEN = re.compile(r"(?:hf|api_org)_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{24,}")
SECRET_NAME = re.compile(r"(?:\w*_)?(?:TOKEN|SECRET|PASSWORD|API_KEY|ACCESS_KEY|SECRET_KEY|PRIVATE_KEY)", re.IGNORECASE)
"""Names of variables that hold secrets; `TOKENIZER_PATH` and `HF_TOKEN_PATH` do not."""
_VALUE = re.compile(r"`([^`]+)`")
LONGEST, LONGEST_IN_HINT = 120, 480
"""Characters of a value. What a hint proposes is a plan more often than a stranger's text, and has to be whole."""
_MOST = 2_000


def redact(text: str) -> str:
    """The text without tokens. Whatever prints a recipe's text (messages, code frames) goes through this."""
    return TOKEN.sub("(a token)", text)


def printable(text: str) -> str:
    """The text with escapes in place of what a terminal would obey or not show."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def say(text: str, longest: int = LONGEST) -> str:
    """A sentence that is safe to print; the values in it, which stand in backticks, are cut where they are too long."""

    def cut(match: re.Match[str]) -> str:
        value = match[1]
        return match[0] if len(value) <= longest else f"`{value[: longest * 2 // 3]}...{value[-longest // 6 :]}`"

    if len(text) > longest:
        text = _VALUE.sub(cut, text)
    text = printable(redact(text))
    return text if len(text) <= _MOST else text[:_MOST] + "..."
