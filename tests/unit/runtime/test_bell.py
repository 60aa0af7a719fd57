from __future__ import annotations

import threading
import time

from milepost.runtime.bell import Bell


def test_a_ring_before_the_wait_ends_it_at_once_and_only_once() -> None:
    bell = Bell()
    bell.ring()
    assert bell.wait(60)
    assert not bell.wait(0)
    bell.close()


def test_a_ring_wakes_whoever_waits() -> None:
    bell, waits = Bell(), threading.Event()

    def ring() -> None:
        waits.wait()
        bell.ring()

    thread = threading.Thread(target=ring)
    thread.start()
    waits.set()
    started = time.monotonic()
    assert bell.wait(60)
    assert time.monotonic() - started < 30
    thread.join()
    bell.close()


def test_no_ring_is_lost_between_two_threads_at_full_speed() -> None:
    """Each answers the other's ring with its own; a lost one would stop both."""
    here, there = Bell(), Bell()

    def answer() -> None:
        for _ in range(2000):
            assert there.wait(60)
            here.ring()

    thread = threading.Thread(target=answer)
    thread.start()
    for _ in range(2000):
        there.ring()
        assert here.wait(60)
    thread.join()
    here.close()
    there.close()
