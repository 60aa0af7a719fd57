"""When a taker goes by hints, and which channels it takes from then."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from milepost.queue.worker.rotation import (
    CHANNELS_A_LOOK,
    CONTENT_LOOKS,
    HINTED_AT_MOST_SECONDS,
    LAG_JOBS,
    LAG_TIME,
    MOST_KNOWN,
    NARROWEST,
    TOLERATED_LOOKS,
    WIDEST,
    Rotation,
)
from milepost.records import TakenJob

TIME = datetime(2020, 1, 1, tzinfo=UTC)
SLOW = 1.0


def job(channel: str, id_: int = 1) -> TakenJob:
    return TakenJob(id_, channel, 1, 0, 25, 0, TIME, b"1", None, None, False)


def late_job(channel: str, run_at: datetime) -> TakenJob:
    return TakenJob(9, channel, 1, 0, 25, 0, run_at, b"1", None, None, False)


def slow_rotation(*jobs: TakenJob) -> Rotation:
    """One whose second look ended at 100.0, and was slow as the first one."""
    rotation = Rotation()
    for end in (50.0, 100.0):
        rotation.took(jobs, SLOW, end)
    return rotation


def test_quick_looks_are_followed_by_full_ones_after_the_last_channel() -> None:
    rotation = Rotation()
    rotation.took([job("a"), job("b")], 0.001, 100.0)
    rotation.took([job("c")], 0.001, 100.0)
    assert rotation.heads(100.0) == {}
    assert rotation.after == "c"


def test_one_slow_look_may_have_other_reasons() -> None:
    rotation = Rotation()
    rotation.took([job("a")], SLOW, 100.0)
    assert rotation.heads(100.0) == {}


def test_many_jobs_may_take_their_time() -> None:
    rotation = Rotation()
    for _ in range(2):
        rotation.took([job("a")] * 1000, 0.1, 100.0)
    assert rotation.heads(100.0) == {}


def test_what_jobs_take_is_learnt_from_the_quickest_look() -> None:
    """A quick machine uses hints before its looks are as slow as those of a slow one."""
    jobs, patient, learnt = [job("a")] * 1000, Rotation(), Rotation()
    learnt.took(jobs, 0.03, 99.0)
    for rotation in (patient, learnt):
        for _ in range(2):
            rotation.took(jobs, 0.08, 100.0)
    assert patient.heads(100.0) == {}
    assert learnt.heads(100.0)


def test_a_look_that_gave_few_jobs_says_nothing_about_many() -> None:
    rotation = Rotation()
    rotation.took([job("a")], 0.000_001, 99.0)
    for _ in range(2):
        rotation.took([job("a")] * 1000, 0.08, 100.0)
    assert rotation.heads(100.0) == {}


def test_after_slow_looks_hints_are_used_for_ten_times_as_long() -> None:
    rotation = slow_rotation(job("a", 1), job("a", 2), job("b", 3))
    assert rotation.heads(109.9) == {"a": (0, TIME, 2), "b": (0, TIME, 3)}
    assert rotation.heads(110.0) == {}


def test_looks_that_a_machine_has_held_up_hide_nothing_for_minutes() -> None:
    rotation = Rotation()
    for end in (50.0, 100.0):
        rotation.took([job("a")], 30.0, end)
    assert rotation.hinted_seconds(100.0) == HINTED_AT_MOST_SECONDS


def test_hints_lag_behind_what_is_taken() -> None:
    """Puts that commit late are before jobs that were taken already."""
    rotation = slow_rotation(job("a", 1), job("b", 2))
    rotation.took_from([job("a", 5), job("b", 6)], 0.01)
    assert rotation.heads(101.0) == {"a": (0, TIME, 1), "b": (0, TIME, 2)}
    for start in (1_000, 2_000):
        rotation.took_from([job("a", start + n) for n in range(LAG_JOBS)], 0.01)
    assert rotation.heads(101.0) == {"b": (0, TIME, 2), "a": (0, TIME, 1_000 + LAG_JOBS - 1)}


def test_a_full_look_moves_a_hint_to_the_time_when_it_began() -> None:
    rotation = slow_rotation(job("a", 1))
    looked_at = TIME + timedelta(minutes=1)
    rotation.took([late_job("a", looked_at)], SLOW, 200.0, looked_at=looked_at)
    assert rotation.heads(201.0) == {"a": (0, looked_at - LAG_TIME, 0)}
    # More jobs waited than were wanted: what is behind the last one was not seen.
    rotation.took([late_job("a", TIME)], SLOW, 300.0, looked_at=looked_at)
    assert rotation.heads(301.0) == {"a": (0, TIME, 0)}


def test_a_channel_that_is_found_empty_is_remembered() -> None:
    rotation = slow_rotation()
    assert rotation.heads(101.0) == {}
    rotation.found_none("a", TIME)
    assert rotation.heads(101.0) == {"a": (0, TIME - LAG_TIME, 0)}


def test_a_channel_that_gives_nothing_stays_known() -> None:
    rotation = slow_rotation(job("a", 1), job("b", 2))
    rotation.took_from([job("a", 5)], 0.01)
    rotation.took_from([], 0.01)
    assert set(rotation.heads(101.0)) == {"a", "b"}


def test_the_channels_that_gave_nothing_for_the_longest_time_are_forgotten() -> None:
    names = [f"{n:05}" for n in range(MOST_KNOWN)]
    rotation = slow_rotation(*(job(name) for name in names))
    rotation.took_from([job("00000"), job("new")], 0.01)
    rotation.after = ""
    assert next(iter(rotation.heads(101.0))) == "00000"
    rotation.after = "00000"
    assert next(iter(rotation.heads(101.0))) == "00002"


def test_hints_last_until_the_next_full_look_is_due() -> None:
    rotation = slow_rotation(job("a"))
    assert rotation.hinted_seconds(103.0) == pytest.approx(7.0)
    assert rotation.hinted_seconds(111.0) == 0.0
    assert Rotation().hinted_seconds(0.0) == 0.0


def test_known_channels_are_served_in_rotation() -> None:
    names = [f"{n:03}" for n in range(CHANNELS_A_LOOK + 50)]
    rotation = slow_rotation(*(job(name) for name in names))
    rotation.after = "099"
    assert list(rotation.heads(101.0)) == names[100:] + names[:50]


def unhelped_rotation() -> Rotation:
    """One whose hinted looks took about as long as the full ones, and most of them, not one."""
    rotation = slow_rotation(job("a"))
    for seconds in (0.9 * SLOW, 0.5 * SLOW, 0.8 * SLOW):
        rotation.took_from([job("a")], seconds)
    return rotation


def test_where_hints_do_not_help_slowness_is_tolerated_for_some_looks() -> None:
    rotation = unhelped_rotation()
    for _ in range(TOLERATED_LOOKS - 1):
        rotation.took([job("a")], 1.5 * SLOW, 200.0)
        assert rotation.heads(200.0) == {}
    for _ in range(2):
        rotation.took([job("a")], 1.5 * SLOW, 200.0)
    assert rotation.heads(200.0)


def test_what_is_far_slower_is_not_tolerated() -> None:
    rotation = unhelped_rotation()
    for _ in range(2):
        rotation.took([job("a")], 2.5 * SLOW, 200.0)
    assert rotation.heads(200.0)


def test_one_hinted_look_that_is_slow_is_no_reason_to_give_hints_up() -> None:
    rotation = slow_rotation(job("a"))
    for seconds in (9 * SLOW, 0.1, 0.1):  # nor if it weighs more than all others
        rotation.took_from([job("a")], seconds)
    rotation.took([job("a")], SLOW, 200.0)
    assert rotation.heads(200.0)


def look(rotation: Rotation, channels: int, *, is_all: bool) -> int:
    rotation.took([job(f"c{n}") for n in range(channels)], 0.001, 100.0, is_all=is_all)
    return rotation.width


def test_a_look_that_gets_too_little_from_as_many_channels_as_it_may_becomes_wider() -> None:
    rotation = Rotation()
    assert look(rotation, NARROWEST, is_all=False) == 2 * NARROWEST
    assert look(rotation, NARROWEST, is_all=False) == 2 * NARROWEST  # there were no more
    for _ in range(9):
        look(rotation, rotation.width, is_all=False)
    assert rotation.width == WIDEST


def test_a_wide_look_becomes_narrower_after_many_that_got_all() -> None:
    rotation = Rotation(width=2 * NARROWEST)
    assert {look(rotation, 3, is_all=True) for _ in range(CONTENT_LOOKS - 1)} == {2 * NARROWEST}
    assert look(rotation, 3, is_all=False) == 2 * NARROWEST
    for _ in range(CONTENT_LOOKS - 1):
        look(rotation, 3, is_all=True)
    assert look(rotation, 3, is_all=True) == NARROWEST
    for _ in range(CONTENT_LOOKS):
        look(rotation, 3, is_all=True)
    assert rotation.width == NARROWEST


def test_a_job_that_was_given_back_is_looked_for_where_it_waits_again() -> None:
    rotation = slow_rotation(late_job("a", TIME + timedelta(hours=1)))
    rotation.gave_back(late_job("a", TIME))
    assert rotation.heads(100.0) == {"a": (0, TIME, 9)}
    rotation.gave_back(late_job("a", TIME + timedelta(hours=2)))
    rotation.gave_back(late_job("unknown", TIME))
    assert rotation.heads(100.0) == {"a": (0, TIME, 9)}
