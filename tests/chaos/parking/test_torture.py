"""Keys that fail and are mended at random, retried by operators all the time, on two instances
whose sessions are ended at random: every message once, and in the order of its key."""

from __future__ import annotations

import random
import time
from collections import Counter
from threading import Event, Thread

import pytest

from milepost import Milepost
from milepost.db import Connection
from milepost.processors import Processor
from milepost.processors.set_aside.dead_letters import list_dead_letters, request_retry
from milepost.runtime import Timing
from tests.chaos.options import SECONDS, TIMEOUT_SECONDS
from tests.integration.processors import sessions
from tests.integration.processors.running import running
from tests.integration.processors.set_aside.picky import SCHEMA, TABLE, Picky, Table
from tests.soak import Figures
from tests.waiting import wait_until

ENOUGH = 500  # messages, however slow the machine
KEYS = [f"key-{n}" for n in range(8)]


@pytest.fixture
def timing() -> Timing:
    return Timing(orders_seconds=0.05)


class Operators:
    """Those who ask for every retry, those who change what is disliked, and bad weather."""

    def __init__(self, url: str, picky: Picky) -> None:
        self._mp, self._picky, self._stop = Milepost(url), picky, Event()
        self.ended = 0  # sessions
        self._threads = [Thread(target=work) for work in (self._retry, self._moods, self._weather)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _retry(self) -> None:
        with self._mp.connect() as conn:
            while not self._stop.wait(0.02):
                request_retry(conn, SCHEMA, [each.id for each in list_dead_letters(conn, SCHEMA)])

    def _moods(self) -> None:
        while not self._stop.wait(0.05):
            self._picky.disliked = set(random.sample(KEYS, random.randint(0, 4)))

    def _weather(self) -> None:
        with self._mp.connect() as conn:
            while not self._stop.wait(0.7):
                self.ended += sessions.terminate(conn, "picky", most=1)


@pytest.mark.soak
@pytest.mark.timeout(TIMEOUT_SECONDS)
@pytest.mark.parametrize("order", ["append"])
@pytest.mark.parametrize("segments", [None, 4])
def test_every_message_is_handled_once_and_in_the_order_of_its_key(
    url: str, mp: Milepost, conn: Connection, segments: int | None, figures: Figures
) -> None:
    conn.execute(TABLE)
    table, picky = Table(mp, conn), Picky(url)
    instances = [
        picky.processor(each, segments=segments, batch_size=10, max_parked=100_000)
        for each in (mp, Milepost(url))
    ]
    operators = Operators(url, picky)
    counts: Counter[str] = Counter()
    with running(*instances) as started:
        wait_until(lambda: all(each.has_connected() for each in started))
        operators.start()
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline or counts.total() <= ENOUGH:
            keys = random.choices(KEYS, k=random.randint(1, 10))
            table.append(*((key, _next(counts, key)) for key in keys))
            time.sleep(random.random() * 0.02)
        operators.stop()
        picky.disliked = set()
        wait_until(lambda: _is_done(table, instances[0]), look_seconds=0.1)
    seen = {key: table.seen_of(key) for key in KEYS}
    distinct = sum(len(set(numbers)) for numbers in seen.values())
    figures(
        messages=counts.total(),
        kills=operators.ended,
        lost=counts.total() - distinct,
        doubled=sum(map(len, seen.values())) - distinct,
    )
    assert seen == {key: list(range(counts[key])) for key in KEYS}


def _next(counts: Counter[str], key: str) -> int:
    counts[key] += 1
    return counts[key] - 1


def _is_done(table: Table, processor: Processor) -> bool:
    table.retry(*table.parked())
    return processor.caught_up() and table.is_empty()
