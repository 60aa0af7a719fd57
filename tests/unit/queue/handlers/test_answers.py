from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from milepost import Cancel, Defer, Failure
from milepost.queue.handlers.answers import endings_of
from milepost.queue.outcome import DEFAULT_RETRY, Ending, Kind, ending_of_error
from milepost.records import TakenJob


def job(id_: int, *, is_kept: bool = False) -> TakenJob:
    run_at = datetime(2030, 1, 1, tzinfo=UTC)
    return TakenJob(id_, "c", 1, 0, 25, 0, run_at, b"null", None, None, is_kept)


def endings(jobs: list[TakenJob], answer: object) -> list[Ending]:
    return endings_of(
        jobs, answer, lambda job, error: ending_of_error(job, error, DEFAULT_RETRY, 0)
    )


def test_none_completes_all() -> None:
    assert [e.kind for e in endings([job(1), job(2)], None)] == [Kind.COMPLETE] * 2


def test_each_job_ends_as_was_answered_for_it() -> None:
    jobs = [job(n, is_kept=True) for n in range(6)]
    answer = {
        jobs[0]: {"sent": True},
        jobs[1]: Failure(TimeoutError("slow")),
        jobs[2]: Failure("no address"),
        jobs[3]: Defer(timedelta(seconds=5)),
        jobs[4]: Cancel("not wanted"),
    }
    ended = endings(jobs, answer)
    assert [ending.job for ending in ended] == jobs
    assert [ending.kind for ending in ended] == [
        Kind.COMPLETE, Kind.FAIL, Kind.FAIL, Kind.DEFER, Kind.CANCEL, Kind.COMPLETE,
    ]  # fmt: skip
    assert ended[0].result == b'{"sent":true}'
    assert ended[1].error == "TimeoutError: slow"
    assert ended[2].error == "JobFailure: no address"


def test_an_answer_that_cannot_be_stored_fails_its_job_alone() -> None:
    jobs = [job(n, is_kept=True) for n in range(5)]
    answer = {
        jobs[0]: object(),
        jobs[1]: Defer(state=object()),
        jobs[2]: Defer(timedelta.max),
        jobs[3]: Failure("no address"),
        jobs[4]: {"sent": True},
    }
    ended = endings(jobs, answer)
    assert [ending.kind for ending in ended] == [*[Kind.FAIL] * 4, Kind.COMPLETE]
    assert [ending.is_final for ending in ended[:4]] == [True, True, True, False]
    for number, field in enumerate(("result", "state", "until")):
        assert f"Job {number} ran, and its {field} cannot be stored" in str(ended[number].error)


@pytest.mark.parametrize("answer", [[], 1, "done", {1: None}])
def test_any_other_answer_is_refused(answer: Any) -> None:
    with pytest.raises(TypeError, match=r"Failure\(error\)|jobs themselves"):
        endings([job(1)], answer)
