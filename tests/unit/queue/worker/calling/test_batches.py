from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pytest

from milepost.queue.outcome import Ending, Kind
from milepost.queue.worker.calling.batches import LocksLost, calling_all, refuse_any_lost
from milepost.records import TakenJob, Verdict


def job(id_: int) -> TakenJob:
    run_at = datetime(2030, 1, 1, tzinfo=UTC)
    return TakenJob(id_, "c", 1, 0, 25, 0, run_at, b"null", None, None, False)


def test_no_list_is_handled_with_a_job_whose_lock_may_have_expired() -> None:
    jobs = [job(1), job(2), job(3)]
    jobs[1].deadline = time.monotonic() - 0.001
    jobs[2].lost = True
    no_connection: Any = None
    with pytest.raises(LocksLost) as raised, calling_all(jobs, no_connection):
        raise AssertionError("the handler would be called here")
    assert raised.value.jobs == jobs[1:]


def test_all_jobs_whose_lock_was_lost_meanwhile_are_found() -> None:
    endings = [Ending(job(n), Kind.COMPLETE) for n in range(3)]
    verdicts = [Verdict.DONE, Verdict.STALE, Verdict.GONE]
    with pytest.raises(LocksLost) as raised:
        refuse_any_lost(zip(endings, verdicts, strict=True))
    assert raised.value.jobs == [endings[1].job, endings[2].job]
    refuse_any_lost([(endings[0], Verdict.DONE)])
