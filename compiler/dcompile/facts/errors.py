"""What goes wrong when facts are read from a user's folder."""

from __future__ import annotations


class FactsError(Exception):
    """A model folder that cannot be read.

    Attributes:
        message: what is wrong, in a sentence for the user.
        hint: what to do about it.
    """

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class WeightsError(FactsError):
    """A weight file that is missing or broken: the recipe may be right, and no job can run from it."""
