"""What to do with a handler's failure: retry, then stop or set the message aside."""

from __future__ import annotations

import random
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Any

from milepost.checkpoints import columns
from milepost.errors import CannotDecode, HandlerFailed, describe
from milepost.handlers import storable, users_frames
from milepost.processors.deliver.losses import Losses
from milepost.processors.deliver.transaction import Conflict, GuardFailed
from milepost.records import RawMessage
from milepost.runtime import Stopping
from milepost.telemetry import repeating

if TYPE_CHECKING:
    from milepost.processors.definition import ProcessorOptions
    from milepost.records import RecordedMessage


@dataclass(frozen=True, slots=True)
class Failure:
    """A message that could not be handled, and why."""

    message: RecordedMessage
    error: Exception
    attempts: int

    def summary(self) -> str:
        return storable(describe(self.error))

    def parameters(self) -> dict[str, Any]:
        return {
            "error": self.summary(),
            "traceback": storable("".join(traceback.format_exception(self.error))),
            "attempts": self.attempts,
            "is_replayed": self.message.replaying,
            **columns(self.message.position),
        }


@dataclass(frozen=True, slots=True)
class Attempts:
    """Tries a message as often as the retry policy says, waiting outside any transaction."""

    options: ProcessorOptions
    stop: Event
    is_lost: Callable[[], bool]
    on_retry: Callable[[Failure], None]
    losses: Losses = field(default_factory=Losses)
    is_alone: Callable[[float], bool] = lambda _began: False  # see losses.py

    def run(self, message: RecordedMessage, handle: Callable[[], None]) -> Failure | None:
        """None when it succeeded. What is not the fault of the handler is raised."""
        retries = 0
        # What cannot be decoded will not be, however often it is tried.
        limit = 0 if isinstance(message, RawMessage) else self.options.retry.limit
        if (ended := self.losses.given_up(message, limit)) is not None:
            return Failure(message, ended, ended.times)
        while True:
            began = time.monotonic()
            try:
                with repeating() if retries else nullcontext():
                    handle()
            except Exception as error:  # noqa: BLE001 - whatever a handler raises is its failure
                self.raise_if_not_handlers(error, [message], began)
                trimmed = error.with_traceback(users_frames(error.__traceback__))
                failure = Failure(message, trimmed, retries + 1)
            else:
                self.losses.forget(message)
                return None
            if retries == limit:
                return failure
            retries += 1
            self.on_retry(failure)
            delay = self.options.retry.delay_seconds(retries, random.random())  # noqa: S311
            if self.stop.wait(delay):
                raise Stopping

    def raise_if_not_handlers(
        self, error: Exception, messages: Sequence[RecordedMessage], began: float
    ) -> None:
        """A guard that failed, a conflict, a stop, and a lost connection are not its failures.
        An error of ours may be: a handler appends messages too."""
        if isinstance(error, GuardFailed):
            raise error.error
        if isinstance(error, Conflict | Stopping):
            raise error
        if self.is_lost():
            if self.is_alone(began):
                self.losses.note(messages)
            raise error


def handler_failed(options: ProcessorOptions, failure: Failure) -> HandlerFailed:
    position = str(failure.message.position)
    if isinstance(failure.message, RawMessage):
        return CannotDecode(options.name, position, failure.message.reason)
    return HandlerFailed(options.name, position, failure.attempts, failure.summary())
