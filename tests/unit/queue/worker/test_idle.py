from __future__ import annotations

from milepost.queue.worker.idle import Pause


def test_with_nothing_to_come_a_worker_rests_until_it_polls() -> None:
    seconds, _ = Pause(2.0).after((None, False))
    assert seconds == 2.0


def test_it_rests_until_something_is_due_and_never_for_no_time_at_all() -> None:
    assert Pause(2.0).after((0.4, False))[0] == 0.4
    assert Pause(2.0).after((-5.0, False))[0] > 0
    assert Pause(2.0).after((7.0, False))[0] == 2.0


def test_while_a_put_is_in_flight_it_looks_soon_and_then_ever_less_often() -> None:
    pause, waits = Pause(2.0), []
    for _ in range(12):
        seconds, pause = pause.after((None, True))
        waits.append(seconds)
    assert waits[0] == 0.001
    assert waits == sorted(waits)
    assert waits[-1] == 0.1
