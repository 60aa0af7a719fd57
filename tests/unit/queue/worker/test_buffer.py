from __future__ import annotations

from datetime import UTC, datetime

from milepost.queue.worker.buffer import Ahead, Buffer
from milepost.records import TakenJob


def job(id_: int, channel: str = "c") -> TakenJob:
    run_at = datetime(2030, 1, 1, tzinfo=UTC)
    return TakenJob(id_, channel, 1, 0, 25, 0, run_at, b"null", None, None, is_kept=False)


HELD_SECONDS = 0.2


def ahead(batch: int = 500, slow: dict[str, float] | None = None) -> Ahead:
    return Ahead(batch, 10, HELD_SECONDS, slow or {})


def begun(*samples: tuple[float, int], batch: int = 500) -> Ahead:
    """After so many jobs had begun at these times."""
    made = ahead(batch)
    for now, number in samples:
        made.note(number, now)
    return made


def test_without_experience_a_worker_wants_what_its_handlers_can_begin_with() -> None:
    assert ahead().wanted(idle=10, buffered=0, now=0.0) == 10


def test_slow_handlers_that_are_all_busy_want_nothing_ahead() -> None:
    assert begun((0.0, 0), (1.0, 5)).wanted(idle=0, buffered=0, now=1.0) == 0


def test_quick_handlers_want_half_of_what_they_begin_while_jobs_may_be_held_up_to_a_batch() -> None:
    quick = begun((0.0, 0), (0.2, 400))
    assert quick.ahead(0.2) == 200
    assert quick.wanted(idle=10, buffered=0, now=0.2) == 210
    assert begun((0.0, 0), (0.2, 6000)).wanted(idle=10, buffered=0, now=0.2) == 500


def test_nothing_is_taken_while_the_buffer_is_more_than_half_full() -> None:
    quick = begun((0.0, 0), (0.2, 6000))
    assert quick.ahead(0.2) == 2 * (500 - 1)
    assert quick.wanted(idle=0, buffered=500, now=0.2) == 0
    assert quick.wanted(idle=0, buffered=499, now=0.2) == 499


def test_a_batch_of_one_takes_nothing_ahead() -> None:
    quick = begun((0.0, 0), (0.2, 6000), batch=1)
    assert quick.ahead(0.2) == 0
    assert quick.wanted(idle=3, buffered=0, now=0.2) == 1
    assert quick.wanted(idle=0, buffered=0, now=0.2) == 0


def test_only_what_began_just_now_counts() -> None:
    """Not how quickly jobs began before: what is held waits for those that run now."""
    made = begun((0.0, 0), (0.1, 1000))
    assert made.recent == 1000
    for now in (0.15, 0.2, 0.25, 0.31):
        made.note(1004, now)
    assert made.recent == 3  # of 0.21 s
    made.note(1004, 0.6)
    assert made.recent == 0


def test_after_a_long_rest_the_last_begins_count_by_their_rate() -> None:
    assert begun((0.0, 0), (2.0, 100)).recent == 10


def test_a_rate_that_rises_is_believed_immediately() -> None:
    made = begun((0.0, 0), (1.0, 2), (1.01, 52))
    assert made.recent < 20
    assert made.ahead(1.01) > 400
    made.note(52, 1.1)
    assert made.ahead(1.1) < 50


def jobs_of(channel: str, number: int) -> list[TakenJob]:
    return [job(n, channel) for n in range(number)]


def test_of_slow_channels_only_what_begins_soon_may_wait_and_quick_jobs_stay() -> None:
    slow, quick = jobs_of("slow", 10), jobs_of("quick", 100)
    found = ahead(slow={"slow": 0.2}).too_slow(slow + quick, [], 4, now=0.0)
    assert found == set(slow[6:])  # for four, handlers are free; and two begin within 50 ms


def test_one_slow_job_may_wait_however_long_it_takes() -> None:
    """So a slow channel gets its turn beside quick ones that keep all handlers busy."""
    slow, made = jobs_of("slow", 3), ahead(slow={"slow": 60.0})
    assert made.too_slow(slow, [], 0, now=0.0) == set(slow[1:])
    assert made.too_slow(slow, jobs_of("slow", 1), 0, now=0.0) == set(slow)


def test_where_slow_jobs_went_back_no_more_are_taken_ahead_for_a_while() -> None:
    made = ahead(slow={"slow": 0.2})
    made.note(0, 0.0)
    made.note(400, 0.2)
    assert made.too_slow(jobs_of("slow", 9), [], 1, now=0.2)
    assert made.wanted(idle=2, buffered=0, now=0.3) == 2 + 2
    assert made.wanted(idle=2, buffered=0, now=0.2 + HELD_SECONDS) == 202


def test_a_job_that_is_taken_off_was_not_begun() -> None:
    buffer = Buffer()
    jobs = [job(1), job(2)]
    buffer.add(jobs)
    buffer.waiting.extend(jobs)
    assert list(buffer.take_off(buffer.waiting, leave=1)) == jobs[1:]
    assert buffer.taken == 1
    assert list(buffer.take_off(buffer.waiting)) == jobs[:1]
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
