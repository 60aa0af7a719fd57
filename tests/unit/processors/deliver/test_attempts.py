from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from threading import Event

import pytest

from milepost.checkpoints import Answer
from milepost.errors import InvalidMessage, NotMigrated, PayloadTooLarge
from milepost.processors import ProcessorOptions
from milepost.processors.deliver.attempts import (
    Attempts,
    Failure,
    handler_failed,
)
from milepost.processors.deliver.transaction import Conflict, GuardFailed
from milepost.processors.set_aside import dead_letters
from milepost.records import Position, RecordedMessage
from milepost.retry import Retry
from milepost.runtime import Stopping

MESSAGE = RecordedMessage(
    "T", {}, position=Position(7, 42), recorded_at=datetime(2026, 1, 1, tzinfo=UTC)
)
RETRY = Retry(limit=3, first_seconds=1.0, factor=2.0, jitter=0)


class Stop(Event):
    """Remembers how long it was waited for, and does not let anyone wait."""

    def __init__(self, after: int | None = None) -> None:
        super().__init__()
        self.waits: list[float | None] = []
        self._after = after

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout)
        return len(self.waits) == self._after


class Handler:
    """Raises one error after the other, then succeeds."""

    def __init__(self, *errors: Exception) -> None:
        self.calls = 0
        self._errors: Iterator[Exception] = iter(errors)

    def __call__(self) -> None:
        self.calls += 1
        if (error := next(self._errors, None)) is not None:
            raise error


def attempts_of(
    stop: Event | None = None,
    retries: list[Failure] | None = None,
    is_lost: Callable[[], bool] = lambda: False,
    retry: Retry = RETRY,
) -> Attempts:
    seen = [] if retries is None else retries
    return Attempts(ProcessorOptions("p", retry=retry), stop or Stop(), is_lost, seen.append)


def test_a_handler_that_succeeds_is_called_once() -> None:
    handler, stop = Handler(), Stop()
    assert attempts_of(stop).run(MESSAGE, handler) is None
    assert (handler.calls, stop.waits) == (1, [])


def test_a_handler_is_tried_again_until_it_succeeds_with_growing_delays() -> None:
    handler, stop, retries = Handler(ValueError("1"), ValueError("2")), Stop(), list[Failure]()
    assert attempts_of(stop, retries).run(MESSAGE, handler) is None
    assert (handler.calls, stop.waits) == (3, [1.0, 2.0])
    assert [(failure.summary(), failure.attempts) for failure in retries] == [
        ("ValueError: 1", 1),
        ("ValueError: 2", 2),
    ]


def test_after_the_limit_the_last_failure_is_the_answer() -> None:
    handler, stop = Handler(*(ValueError(str(n)) for n in range(1, 9))), Stop()
    failure = attempts_of(stop).run(MESSAGE, handler)
    assert failure is not None
    assert (failure.message, failure.attempts, failure.summary()) == (MESSAGE, 4, "ValueError: 4")
    assert (handler.calls, stop.waits) == (4, [1.0, 2.0, 4.0])


def test_a_limit_of_0_tries_once_and_does_not_wait() -> None:
    stop, retries = Stop(), list[Failure]()
    failure = attempts_of(stop, retries, retry=Retry(limit=0)).run(MESSAGE, Handler(ValueError()))
    assert failure is not None
    assert (failure.attempts, stop.waits, retries) == (1, [], [])


def test_a_stop_ends_the_waiting() -> None:
    handler = Handler(ValueError(), ValueError(), ValueError())
    with pytest.raises(Stopping):
        attempts_of(Stop(after=2)).run(MESSAGE, handler)
    assert handler.calls == 2


@pytest.mark.parametrize("error", [Conflict(Answer.FURTHER), Stopping()])
def test_what_is_not_the_handlers_fault_is_raised_at_once(error: Exception) -> None:
    handler = Handler(error)
    with pytest.raises(type(error)) as caught:
        attempts_of().run(MESSAGE, handler)
    assert caught.value is error
    assert handler.calls == 1


def test_a_statement_of_ours_that_fails_beside_the_handler_is_raised_at_once() -> None:
    error = NotMigrated("milepost", None, 2)
    handler = Handler(GuardFailed(error))
    with pytest.raises(NotMigrated) as caught:
        attempts_of().run(MESSAGE, handler)
    assert caught.value is error
    assert handler.calls == 1


@pytest.mark.parametrize("error", [ValueError("handler's"), InvalidMessage("data", "is bytes")])
def test_whatever_is_raised_on_a_lost_connection_is_raised_at_once(error: Exception) -> None:
    handler = Handler(error)
    with pytest.raises(type(error)):
        attempts_of(is_lost=lambda: True).run(MESSAGE, handler)
    assert handler.calls == 1


@pytest.mark.parametrize("error", [InvalidMessage("data", "is bytes"), PayloadTooLarge("2 MiB")])
def test_a_message_that_makes_the_handler_append_nonsense_is_a_failing_message(
    error: Exception,
) -> None:
    """Else one message that leads to a bad append ends a processor that is told to skip."""
    failure = attempts_of().run(MESSAGE, Handler(error, error, error, error))
    assert failure is not None
    assert failure.error is error


def test_a_failure_is_written_with_its_error_and_traceback() -> None:
    failure = attempts_of(retry=Retry(limit=0)).run(MESSAGE, Handler(ValueError("no tens")))
    assert failure is not None
    parameters = failure.parameters()
    assert parameters["error"] == "ValueError: no tens"
    assert "in __call__" in parameters["traceback"]
    assert (parameters["transaction_id"], parameters["position"]) == (7, 42)
    assert parameters["attempts"] == 1


@pytest.mark.parametrize(("text", "written"), [("a\0b", "a\\0b"), ("a\ud800b", "a\\ud800b")])
def test_what_text_cannot_hold_does_not_keep_an_error_from_being_written(
    text: str, written: str
) -> None:
    parameters = Failure(MESSAGE, ValueError(text), 1).parameters()
    assert parameters["error"] == f"ValueError: {written}"
    assert f"ValueError: {written}" in parameters["traceback"]


def test_a_failed_handler_is_named_with_message_and_cause() -> None:
    error = handler_failed(ProcessorOptions("p"), Failure(MESSAGE, ValueError("no tens"), 4))
    assert (error.processor, error.position, error.attempts) == ("p", "7:42", 4)
    assert "no tens" in str(error)


def test_setting_aside_names_the_processor_and_its_version() -> None:
    key = ProcessorOptions("p", version=2).key
    _, parameters = next(dead_letters.put("milepost", key, MESSAGE.position, {}))
    assert (parameters["processor"], parameters["version"]) == ("p", 2)
