from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from milepost.errors import LONGEST_ERROR, InvalidResult
from milepost.queue.definition import WorkerOptions
from milepost.queue.outcome import (
    DEFAULT_RETRY,
    Cancel,
    Defer,
    Kind,
    RetryPolicy,
    Yield,
    ending_of_error,
    ending_of_return,
    retry_for,
)
from milepost.records import TakenJob
from milepost.retry import Retry

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def job(*, failures: int = 0, is_kept: bool = False) -> TakenJob:
    return TakenJob(1, "c", 1, failures, 25, 0, NOW, b"null", None, None, is_kept)


def test_a_result_is_encoded_only_for_a_job_that_is_kept() -> None:
    assert ending_of_return(job(), object()).result is None
    assert ending_of_return(job(is_kept=True), {"a": 1}).result == b'{"a":1}'
    with pytest.raises(InvalidResult, match="Job 1 ran, and its result cannot be stored") as raised:
        ending_of_return(job(is_kept=True), object())
    assert ending_of_error(job(), raised.value, Retry(), 0.0).is_final
    with pytest.raises(InvalidResult, match="its state cannot be stored"):
        ending_of_return(job(), Defer(state=object()))
    raised_state = ending_of_error(job(), Defer(state=object()), Retry(), 0.0)
    assert (raised_state.kind, raised_state.is_final) == (Kind.FAIL, True)


def test_defer_and_cancel_mean_the_same_returned_and_raised() -> None:
    for defer in (Defer(NOW, state=1), Yield(state=1), Defer(timedelta(seconds=1), state=1)):
        for ending in (ending_of_return(job(), defer), ending_of_error(job(), defer, {}, 0.0)):
            assert (ending.kind, ending.until, ending.state) == (Kind.DEFER, defer.until, b"1")
    assert ending_of_return(job(), Cancel()).kind is Kind.CANCEL
    assert ending_of_error(job(), Cancel("why"), {}, 0.0).error == "why"


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


def test_an_error_whose_message_cannot_be_read_is_described() -> None:
    ending = ending_of_error(job(), Mute(), Retry(), 0.0)
    assert ending.error == "Mute: (its __str__ raised ValueError)"


def test_the_error_of_a_job_is_bounded() -> None:
    text = "x" * 1_000_000
    for error in (ValueError(text), Cancel(text)):
        ending = ending_of_error(job(), error, Retry(), 0.0)
        assert len(ending.error or "") < LONGEST_ERROR + 100
        assert (ending.error or "").endswith("(1000000 characters)")


@pytest.mark.parametrize("policy", [3, None, {ValueError: 3}, {"ValueError": Retry()}])
def test_a_retry_that_is_none_is_refused_when_the_worker_is_made(policy: Any) -> None:
    with pytest.raises(TypeError, match="retry"):
        WorkerOptions("emails", retry=policy)


def test_an_error_of_a_cancelled_job_ends_it() -> None:
    cancelled = job()
    cancelled.cancelled = True
    assert ending_of_error(cancelled, ValueError("stop"), Retry(), 0.0).kind is Kind.CANCEL


def test_delays_grow_with_the_failures_and_end_with_the_limit() -> None:
    policy = Retry(limit=2, first_seconds=1.0, jitter=0.0)
    endings = [ending_of_error(job(failures=n), OSError("x"), policy, 0.0) for n in range(3)]
    assert [ending.delay for ending in endings] == [
        timedelta(seconds=1), timedelta(seconds=2), None
    ]  # fmt: skip
    assert [ending.is_final for ending in endings] == [False, False, True]
    assert endings[0].error == "OSError: x"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (TimeoutError(), Retry(limit=7)),
        (ConnectionError(), Retry(limit=3)),
        (ValueError(), None),
        (UnicodeError(), None),
        (ArithmeticError(), DEFAULT_RETRY),
    ],
)
def test_the_closest_class_of_an_exception_decides(
    error: Exception, expected: Retry | None
) -> None:
    policy: RetryPolicy = {TimeoutError: Retry(limit=7), OSError: Retry(limit=3), ValueError: None}
    assert retry_for(error, policy) == expected
