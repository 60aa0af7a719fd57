from __future__ import annotations

from milepost.queue.worker.buffer import Demand


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
