"""Messages of a key that arrive while it is being retried neither overtake nor get lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field

import pytest

from milepost import Milepost, RecordedMessage, sql
from milepost.db import Connection
from milepost.processors import Processor
from milepost.processors.deliver.at_least_once import AtLeastOnce
from milepost.processors.deliver.transaction import Effects, ExactlyOnce
from milepost.processors.segments.work import Surroundings
from milepost.processors.set_aside.retry import Retrying
from milepost.runtime import Connections, Timing
from tests.integration.processors.running import running
from tests.integration.processors.set_aside import sabotage
from tests.integration.processors.set_aside.picky import NEVER_AGAIN, SCHEMA, Picky, Table, pairs
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.usefixtures("quick_orders"),
]
IN_VAIN = 2.0  # seconds that are waited for what never comes
Handle = Callable[..., None]


@dataclass(slots=True)
class Slow:
    """Handles as Picky does, but waits in the middle of a batch that holds the key `slow`."""

    picky: Picky
    has_begun: threading.Event = field(default_factory=threading.Event)
    is_released: threading.Event = field(default_factory=threading.Event)

    def exactly_once(self, messages: list[RecordedMessage], tx: Connection) -> None:
        self.picky.exactly_once_def_batch(messages, tx)
        self._wait(messages)

    def at_least_once(self, messages: list[RecordedMessage]) -> None:
        self._wait(messages)
        self.picky.at_least_once_def_batch(messages)

    def _wait(self, messages: list[RecordedMessage]) -> None:
        if any(message.key == "slow" for message in messages):
            self.has_begun.set()
            assert self.is_released.wait(30)


def slow_processor(mp: Milepost, slow: Slow, delivery: str) -> Processor:
    decorate = mp.processor(
        "picky", delivery=delivery, on_failure="park", retry=NEVER_AGAIN, poll_seconds=0.05  # type: ignore[arg-type]  # texts
    )  # fmt: skip
    return decorate(getattr(slow, delivery))


def park_one(mp: Milepost, picky: Picky, table: Table) -> None:
    picky.disliked = {"bad"}
    table.append(("bad", 1))
    picky.processor(mp).run(until="caught_up")
    picky.disliked.clear()
    assert table.letters() == pairs("bad", [1])


def retry_now(processor: Processor) -> None:
    """What a second instance does at its next look for orders, and nothing else of it."""
    definition = processor.definition
    stop = threading.Event()
    own = Connections(processor.runtime.url).lease("picky", stop)
    effects: Effects = ExactlyOnce(definition, own, SCHEMA)
    if definition.options.delivery == "at_least_once":
        effects = AtLeastOnce(definition, own, SCHEMA)
    timing = Timing(retry_seconds=3600.0)  # or a machine that stalls would end it before it began
    with closing(own):
        around = Surroundings(definition, "second", SCHEMA, stop, lambda _: None, timing)
        Retrying(around, own, effects).run()


def arrive_while_the_last_letter_is_retried(
    url: str, mp: Milepost, picky: Picky, table: Table, delivery: str, seconds: float = 60.0
) -> None:
    """A batch of one instance holds the second message back and has not committed, while another
    instance handles the first one, the last letter there is to see. Then nothing is left, within
    so many seconds."""
    park_one(mp, picky, table)
    slow = Slow(picky)
    with running(slow_processor(Milepost(url), slow, delivery)):
        table.append(("bad", 2), ("slow", 1))
        assert slow.has_begun.wait(30)
        table.retry("bad")
        retry_now(picky.processor(Milepost(url), delivery))
        assert (table.seen_of("bad"), table.letters()) == ([1], [])
        slow.is_released.set()
        wait_until(lambda: bool(table.seen_of("slow")))
        table.append(("bad", 3), ("last", 1))
        wait_until(lambda: bool(table.seen_of("last")))
        wait_until(table.is_empty, seconds)


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_a_message_that_arrives_while_the_last_letter_is_retried_comes_next(
    url: str, mp: Milepost, picky: Picky, table: Table, delivery: str
) -> None:
    arrive_while_the_last_letter_is_retried(url, mp, picky, table, delivery)
    assert table.seen_of("bad") == [1, 2, 3]
    assert table.parked() == []


def test_without_the_lock_of_letters_that_message_is_lost(
    url: str, mp: Milepost, conn: Connection, picky: Picky, table: Table
) -> None:
    sabotage.take_out_the_lock_of_letters(conn)
    with pytest.raises(AssertionError, match="still not so"):
        arrive_while_the_last_letter_is_retried(url, mp, picky, table, "exactly_once", IN_VAIN)
    assert table.seen_of("bad") == [1, 3]


def test_a_key_drained_while_a_message_is_held_back_would_stay_parked_without_a_new_retry(
    url: str, mp: Milepost, conn: Connection, picky: Picky, table: Table
) -> None:
    sabotage.leave_drained_keys_to_the_operator(conn)
    with pytest.raises(AssertionError, match="still not so"):
        arrive_while_the_last_letter_is_retried(url, mp, picky, table, "at_least_once", IN_VAIN)
    assert table.parked() == ["bad"]


def drain_with_two_instances(
    url: str, mp: Milepost, picky: Picky, table: Table, delivery: str, handle: Handle
) -> list[int]:
    picky.disliked = {"bad"}
    table.append(*pairs("bad", range(30)))
    picky.processor(mp, delivery).run(until="caught_up")
    picky.disliked.clear()
    instances = [
        Milepost(url).processor(
            "picky", delivery=delivery, on_failure="park", poll_seconds=0.01  # type: ignore[arg-type]  # texts
        )(handle)
        for _ in range(2)
    ]  # fmt: skip
    with running(*instances):
        table.retry("bad")
        wait_until(table.is_empty)
    return table.seen_of("bad")


def _slowed(picky: Picky, delivery: str) -> Handle:
    def exactly_once(messages: list[RecordedMessage], tx: Connection) -> None:
        time.sleep(0.01)
        picky.exactly_once_def_batch(messages, tx)

    def at_least_once(messages: list[RecordedMessage]) -> None:
        time.sleep(0.01)
        picky.at_least_once_def_batch(messages)

    return exactly_once if delivery == "exactly_once" else at_least_once


def _meeting(picky: Picky) -> Handle:
    """The first letter is not handled before it is in two hands."""
    both, is_met = threading.Barrier(2), threading.Event()

    def at_least_once(messages: list[RecordedMessage]) -> None:
        if not is_met.is_set():
            both.wait(30)
            is_met.set()
        picky.at_least_once_def_batch(messages)

    return at_least_once


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_two_instances_retry_a_key_once_and_in_order(
    url: str, mp: Milepost, picky: Picky, table: Table, delivery: str
) -> None:
    seen = drain_with_two_instances(url, mp, picky, table, delivery, _slowed(picky, delivery))
    assert seen == list(range(30))


def replace_queries(monkeypatch: pytest.MonkeyPatch, sabotaged: dict[str, bytes]) -> None:
    query = sql.query

    def without(name: str, schema: str = SCHEMA) -> bytes:
        return sabotaged[name] if name in sabotaged else query(name, schema)

    monkeypatch.setattr(sql, "query", without)


def test_both_retry_a_key_once_and_in_order_also_if_both_believe_that_it_is_their_turn(
    url: str, mp: Milepost, picky: Picky, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the session of the one that works has ended, and it does not know yet."""
    replace_queries(monkeypatch, {"turn_take": sabotage.ANYBODY_WORKS})
    handle = _slowed(picky, "at_least_once")
    assert drain_with_two_instances(url, mp, picky, table, "at_least_once", handle) == [*range(30)]


def test_without_the_lock_of_a_retry_both_handle_it(
    url: str, mp: Milepost, picky: Picky, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    drains = dict.fromkeys(("parked_hold", "parked_let_go"), sabotage.ANYBODY_DRAINS)
    replace_queries(monkeypatch, drains | {"turn_take": sabotage.ANYBODY_WORKS})
    seen = drain_with_two_instances(url, mp, picky, table, "at_least_once", _meeting(picky))
    assert len(seen) > 30
