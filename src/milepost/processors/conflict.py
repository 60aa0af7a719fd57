"""The checkpoint was not where this instance expected it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from psycopg.errors import LockNotAvailable

from milepost.checkpoints import Answer
from milepost.db import translated


class Conflict(Exception):
    """Nothing was stored and nothing of the batch has happened."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        super().__init__(answer.name.lower())


class GuardFailed(Exception):
    """A statement of ours failed beside the handler: none of the handler's failures."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        super().__init__(str(error))


@contextmanager
def storing(schema: str) -> Iterator[None]:
    """Our errors, and a conflict where a competitor has held the row for longer than we wait."""
    try:
        with translated(schema):
            yield
    except LockNotAvailable as error:
        raise Conflict(Answer.FURTHER) from error


@contextmanager
def guarding(schema: str) -> Iterator[None]:
    """For statements of ours that run where the handler's failures are caught."""
    try:
        with storing(schema):
            yield
    except Conflict:
        raise
    except Exception as error:
        raise GuardFailed(error) from error
