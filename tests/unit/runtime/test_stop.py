from __future__ import annotations

from threading import Event

from milepost.runtime import Stop, waking


def test_a_stop_wakes_those_who_rest_and_nobody_who_has_left() -> None:
    stop, woken = Stop(), list[str]()
    with waking(stop, lambda: woken.append("first")):
        pass
    with waking(stop, lambda: woken.append(f"second {stop.is_set()}")):
        assert woken == []
        stop.set()
    stop.set()
    assert woken == ["second True"]


def test_an_event_of_the_callers_own_is_left_as_it_is() -> None:
    stop = Event()
    with waking(stop, lambda: None):
        stop.set()
    assert stop.is_set()
