"""When a taker goes by hints, and which channels it takes from then."""

from __future__ import annotations

from datetime import UTC, datetime

from milepost.queue.rotation import (
    CHANNELS_A_LOOK,
    CONTENT_LOOKS,
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


def test_after_slow_looks_hints_are_used_for_ten_times_as_long() -> None:
    rotation = slow_rotation(job("a", 1), job("a", 2), job("b", 3))
    assert rotation.heads(109.9) == {"a": (0, TIME, 2), "b": (0, TIME, 3)}
    assert rotation.heads(110.0) == {}


def test_hints_move_on_with_what_is_taken() -> None:
    rotation = slow_rotation(job("a", 1), job("b", 2))
    rotation.took_from(rotation.heads(101.0), [job("a", 5), job("b", 6)], 0.01)
    assert rotation.heads(101.0) == {"a": (0, TIME, 5), "b": (0, TIME, 6)}


def test_a_channel_that_gave_nothing_is_left_to_the_full_look() -> None:
    rotation = slow_rotation(job("a", 1), job("b", 2))
    rotation.took_from(rotation.heads(101.0), [job("a", 5)], 0.01)
    assert rotation.heads(101.0) == {"a": (0, TIME, 5)}
    rotation.took_from(rotation.heads(101.0), [], 0.01)
    assert rotation.heads(101.0) == {}


def test_known_channels_are_served_in_rotation() -> None:
    names = [f"{n:03}" for n in range(CHANNELS_A_LOOK + 50)]
    rotation = slow_rotation(*(job(name) for name in names))
    rotation.after = "099"
    assert list(rotation.heads(101.0)) == names[100:] + names[:50]


def unhelped_rotation() -> Rotation:
    """One whose hinted looks took about as long as the full ones, and on the average, not once."""
    rotation = slow_rotation(job("a"))
    for seconds in (0.9 * SLOW, 0.5 * SLOW, 0.8 * SLOW):
        rotation.took_from(rotation.heads(101.0), [job("a")], seconds)
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
    for seconds in (0.9 * SLOW, 0.1, 0.1):
        rotation.took_from(rotation.heads(101.0), [job("a")], seconds)
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
