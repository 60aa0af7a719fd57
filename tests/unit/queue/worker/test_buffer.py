from __future__ import annotations

from datetime import UTC, datetime

from milepost.queue.worker.buffer import Buffer, Demand, Standstill
from milepost.records import TakenJob


def job(id_: int) -> TakenJob:
    run_at = datetime(2030, 1, 1, tzinfo=UTC)
    return TakenJob(id_, "c", 1, 0, 25, 0, run_at, b"null", None, None, is_kept=False)


def test_without_experience_a_worker_wants_what_its_handlers_can_begin_with() -> None:
    assert Demand(batch=500).wanted(idle=10, buffered=0) == 10


def test_slow_handlers_that_are_all_busy_want_nothing_ahead() -> None:
    demand = Demand(batch=500)
    demand.began(5, seconds=1.0)
    assert demand.wanted(idle=0, buffered=0) == 0


def test_quick_handlers_want_what_they_begin_within_a_moment_up_to_a_batch() -> None:
    demand = Demand(batch=500)
    demand.began(200, seconds=0.1)
    assert demand.ahead() == 200
    assert demand.wanted(idle=10, buffered=0) == 210
    demand.began(30_000, seconds=1.0)
    assert demand.wanted(idle=10, buffered=0) == 500


def test_nothing_is_taken_while_the_buffer_is_more_than_half_full() -> None:
    demand = Demand(batch=500)
    demand.began(30_000, seconds=1.0)
    assert demand.ahead() == 1000
    assert demand.wanted(idle=0, buffered=501) == 0
    assert demand.wanted(idle=0, buffered=500) == 500


def test_a_rate_that_rises_is_believed_at_once_and_one_that_falls_by_and_by() -> None:
    demand = Demand(batch=500)
    demand.began(1000, seconds=1.0)
    assert demand.rate == 1000
    demand.began(0, seconds=1.0)
    assert demand.rate == 700
    demand.began(5000, seconds=1.0)
    assert demand.rate == 5000


def test_a_standstill_is_counted_from_the_last_begin() -> None:
    standstill = Standstill()
    assert standstill.seconds(3, 10.0) == 0
    assert standstill.seconds(3, 11.5) == 1.5
    assert standstill.seconds(4, 12.0) == 0
    assert standstill.seconds(4, 12.25) == 0.25


def test_a_job_that_is_taken_off_was_not_begun() -> None:
    buffer = Buffer()
    jobs = [job(1), job(2)]
    buffer.add(jobs)
    buffer.waiting.extend(jobs)
    assert list(buffer.take_off(buffer.waiting)) == jobs
    assert buffer.taken == 0
    assert buffer.held() == jobs  # until it is settled


def test_an_attempt_that_was_overtaken_here_counts_until_its_handler_ends() -> None:
    """Else the worker believes that a handler is free, and keeps the next attempt for it."""
    buffer = Buffer()
    first, second = job(1), job(1)
    buffer.add([first])
    buffer.add([second])
    assert first.lost
    assert (len(buffer), buffer.held()) == (2, [second])
    buffer.drop([first])
    assert (len(buffer), buffer.held()) == (1, [second])
    buffer.drop([second])
    assert len(buffer) == 0
