"""Ring buffers: what is older than the ring is gone, and what was not noted is not there."""

from __future__ import annotations

from milepost.ui.observed.history import MAX_SERIES, History, Ring


def test_values_come_back_in_order_with_gaps() -> None:
    history = History()
    history.note(1000.0, {"lag": 1})
    history.note(1002.5, {"lag": 3})
    assert history.seconds("lag", 4) == [None, 1.0, None, 3.0]


def test_a_slot_that_is_used_again_forgets_all_series() -> None:
    ring = Ring(3, 1)
    ring.note(10, {"a": 1, "b": 1})
    ring.note(13, {"a": 2})
    assert ring.series("a", 13, 3) == [None, None, 2.0]
    assert ring.series("b", 13, 3) == [None, None, None]


def test_a_minute_keeps_its_last_value() -> None:
    history = History()
    for at, value in ((60.0, 1.0), (119.0, 2.0), (120.0, 3.0)):
        history.note(at, {"lag": value})
    assert history.minutes("lag", 2) == [2.0, 3.0]


def test_an_unknown_series_is_empty() -> None:
    assert History().seconds("nobody", 2) == [None, None]


def test_the_number_of_series_is_bounded() -> None:
    ring = Ring(2, 1)
    ring.note(1, {str(number): 1.0 for number in range(MAX_SERIES + 5)})
    assert ring.series(str(MAX_SERIES - 1), 1, 1) == [1.0]
    assert ring.series(str(MAX_SERIES), 1, 1) == [None]


def test_a_new_series_takes_the_place_of_the_one_that_was_noted_longest_ago() -> None:
    """Channels come and go: those of today have charts too."""
    ring = Ring(5, 1)
    ring.note(1, {"gone": 1.0} | {str(number): 1.0 for number in range(MAX_SERIES - 1)})
    ring.note(2, {"new": 2.0} | {str(number): 2.0 for number in range(MAX_SERIES - 1)})
    assert ring.series("new", 2, 2) == [None, 2.0]
    assert ring.series("gone", 2, 2) == [None, None]
    assert ring.series("0", 2, 2) == [1.0, 2.0]
