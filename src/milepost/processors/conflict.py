"""The checkpoint was not where this instance expected it."""

from __future__ import annotations

from milepost.checkpoints import Answer


class Conflict(Exception):
    """Nothing was stored and nothing of the batch has happened."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        super().__init__(answer.name.lower())
