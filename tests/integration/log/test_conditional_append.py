"""Append unless the key has newer messages: exact, also for transactions that are still open."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import psycopg
import pytest
from psycopg import errors as pg

from milepost import AppendConflict, Message, Milepost, Newer, Position, append, db
from milepost.db import Connection
from milepost.errors import BeyondHorizon, IndexMissing, InvalidCondition, UnsafeIsolation
from milepost.log.append import COPY_FROM
from tests.chaos.options import SECONDS
from tests.sabotage import replace_in
from tests.waiting import wait_until

KEY = "order-1"
# In `make soak`. It tries fewer where its tortures are short.
MOST_ATTEMPTS, ATTEMPTS_A_SECOND = 100_000, 1_000
WAITING = "select count(*) from pg_locks where locktype = 'advisory' and not granted"


@pytest.fixture
def mp(url: str) -> Milepost:
    made = Milepost(url)
    made.migrate(key_index=True)
    return made


@pytest.fixture
def other(mp: Milepost) -> Iterator[Connection]:
    with mp.connect() as conn:
        yield conn


def message(type_: str = "T", key: str = KEY, **data: Any) -> Message:
    return Message(type_, data, key=key)


def unless(after: Position = Position.BEGINNING, **options: Any) -> Newer:
    return Newer(key=KEY, after=after, **options)


def history(mp: Milepost, key: str = KEY) -> list[Position]:
    return [each.position for each in mp.read(key=key)]


def wait_for_lock(conn: Connection) -> None:
    wait_until(lambda: conn.execute(WAITING).fetchone() == (1,))


def test_a_condition_that_holds_appends_and_one_that_does_not_names_what_came_between(
    mp: Milepost, conn: Connection
) -> None:
    (first,) = append(conn, message(), unless=unless())
    (second,) = append(conn, message(), unless=unless(first))
    with pytest.raises(AppendConflict) as caught:
        append(conn, message(), unless=unless())
    assert caught.value.key == KEY
    assert caught.value.after == Position.BEGINNING
    assert caught.value.positions == [first, second]
    assert f"after position 0:0, at {first}, {second}: nothing was appended" in str(caught.value)
    assert history(mp) == [first, second]


def test_only_the_key_and_the_types_of_the_condition_count(mp: Milepost, conn: Connection) -> None:
    append(conn, message("Noted"), message("T", key="order-2"))
    (placed,) = append(conn, message("Placed"), unless=unless(types=["Placed", "Paid"]))
    with pytest.raises(AppendConflict) as caught:
        append(conn, message("Placed"), unless=unless(types=["Placed"]))
    assert caught.value.positions == [placed]
    append(conn, message("Paid"), unless=unless(types=["Paid"]))


def test_messages_of_the_same_transaction_count(mp: Milepost, conn: Connection) -> None:
    with conn.transaction():
        (first,) = append(conn, message())
        append(conn, message(), unless=unless(first))
        with pytest.raises(AppendConflict), conn.transaction():
            append(conn, message(), unless=unless(first))
    assert len(history(mp)) == 2


@pytest.mark.parametrize("count", [3, COPY_FROM + 1])
def test_many_messages_have_one_condition(mp: Milepost, conn: Connection, count: int) -> None:
    positions = append(conn, *(message(n=n) for n in range(count)), unless=unless())
    assert history(mp) == positions
    with pytest.raises(AppendConflict) as caught:
        append(conn, *(message(n=n) for n in range(count)), unless=unless(positions[0]))
    assert caught.value.positions == positions[1:101]
    assert history(mp) == positions


def test_a_transaction_that_is_open_is_waited_for(
    mp: Milepost, conn: Connection, other: Connection
) -> None:
    with ThreadPoolExecutor() as pool:
        with conn.transaction():
            (first,) = append(conn, message(), unless=unless())
            late = pool.submit(lambda: append(other, message(), unless=unless()))
            wait_for_lock(conn)
        with pytest.raises(AppendConflict) as caught:
            late.result(30)
    assert caught.value.positions == [first]


def test_one_that_rolls_back_leaves_the_place_to_the_next(
    mp: Milepost, conn: Connection, other: Connection
) -> None:
    with ThreadPoolExecutor() as pool:
        with conn.transaction(force_rollback=True):
            append(conn, message(), unless=unless())
            late = pool.submit(lambda: append(other, message(), unless=unless()))
            wait_for_lock(conn)
        assert late.result(30) == history(mp)


def test_without_the_lock_two_writers_win(
    mp: Milepost, conn: Connection, other: Connection
) -> None:
    """What the tests above would not notice without it."""
    replace_in(conn, "lock_key", "xact_lock(", "xact_lock_shared(")
    with conn.transaction():
        append(conn, message(), unless=unless())
        append(other, message(), unless=unless())
    assert len(history(mp)) == 2


def test_writers_of_other_keys_do_not_wait(
    mp: Milepost, conn: Connection, other: Connection
) -> None:
    other.execute("set lock_timeout = '1s'")
    with conn.transaction():
        append(conn, message(), unless=unless())
        append(other, message(key="2"), unless=Newer(key="2", after=Position.BEGINNING))
    assert len(history(mp)) == 1


def test_the_lock_of_a_key_does_not_count_for_the_horizon(
    mp: Milepost, conn: Connection, other: Connection
) -> None:
    append(conn, message(key="other"))
    with conn.transaction():
        conn.execute("select milepost.lock_key(%s)", [KEY])
        (position,) = append(other, message(key="other"))
        assert history(mp, "other")[-1] == position


def test_a_writer_without_a_condition_counts_once_it_has_committed(
    mp: Milepost, conn: Connection, other: Connection
) -> None:
    append(conn, message())
    with pytest.raises(AppendConflict):
        append(other, message(), unless=unless())


@pytest.mark.parametrize("order", ["transaction"], indirect=True)
def test_a_transaction_that_is_older_than_a_message_of_the_key_is_refused(
    mp: Milepost, conn: Connection, other: Connection
) -> None:
    """Its message would sort before the one that it has read."""
    with conn.transaction(force_rollback=True):
        append(conn, message(key="another"))
        (newest,) = append(other, message("Other type"), unless=unless())
        with pytest.raises(AppendConflict) as caught:
            append(conn, message(), unless=unless(newest, types=["T"]))
    assert caught.value.positions == [newest]
    append(conn, message(), unless=unless(newest))


@pytest.mark.parametrize("order", ["append"], indirect=True)
def test_in_append_order_an_older_transaction_may_append(
    mp: Milepost, conn: Connection, other: Connection
) -> None:
    with conn.transaction():
        append(conn, message(key="another"))
        (newest,) = append(other, message(), unless=unless())
        (mine,) = append(conn, message(), unless=unless(newest))
    assert history(mp) == [newest, mine]


def test_without_the_index_the_command_is_named(url: str, conn: Connection) -> None:
    conn.execute("drop index milepost.messages_key")
    with pytest.raises(IndexMissing, match="migrate --with-key-index"):
        append(conn, message(), unless=unless())
    with pytest.raises(IndexMissing, match="migrate --with-key-index"):
        list(Milepost(url).read(key=KEY))


def test_other_isolation_levels_are_refused(mp: Milepost, conn: Connection) -> None:
    conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    with pytest.raises(UnsafeIsolation, match="READ COMMITTED"), conn.transaction():
        append(conn, message(), unless=unless())
    assert history(mp) == []


def test_a_position_that_the_log_has_not_given_is_refused(mp: Milepost, conn: Connection) -> None:
    """The one of another log would let everything pass."""
    with conn.transaction():
        (own,) = append(conn, message())
        append(conn, message(), unless=unless(own))
    above = Position(own.transaction_id + 1_000_000, own.position + 1_000_000)
    with pytest.raises(BeyondHorizon) as caught:
        append(conn, message(), unless=unless(above))
    assert (caught.value.position, caught.value.horizon) == (above, history(mp)[-1])
    assert len(history(mp)) == 2


def test_what_cannot_be_a_condition_is_refused(conn: Connection) -> None:
    with pytest.raises(InvalidCondition, match=r"Position\.BEGINNING"):
        Newer(key=KEY, after=None)  # type: ignore[arg-type]  # what a caller might pass
    with pytest.raises(InvalidCondition, match="key"):
        Newer(key="", after=Position.BEGINNING)
    with pytest.raises(InvalidCondition, match=r"\['T'\]"):
        unless(types="T")
    with pytest.raises(InvalidCondition, match="no message would count"):
        unless(types=[])
    with pytest.raises(InvalidCondition, match="Newer"):
        append(conn, message(), unless=Position.BEGINNING)  # type: ignore[call-overload]


def test_on_an_async_connection(mp: Milepost, url: str) -> None:
    async def run() -> list[Position]:
        async with await db.connect_async(url) as conn:
            first = await append(conn, message(), unless=unless())
            with pytest.raises(AppendConflict):
                await mp.append(conn, message(), unless=unless())
            return [*first, *await mp.append(conn, message(), unless=unless(first[0]))]

    assert asyncio.run(run()) == history(mp)


def test_from_sql(mp: Milepost, conn: Connection) -> None:
    one = "select * from milepost.append_unless_newer('T', '{}', %s, row(0, %s)::milepost.position)"
    if conn.execute("select log_order from milepost.log").fetchone() == ("transaction",):
        one = one.replace("row(0, %s)", "row(%s, 9)")
    (first,) = conn.execute(one, [KEY, 0]).fetchall()
    with pytest.raises(pg.Error) as caught:
        conn.execute(one, [KEY, 0])
    assert caught.value.sqlstate == "MP010"
    many = """
    select * from milepost.append_many_unless_newer(
      '[{"type": "T", "data": 1, "key": "order-1"}, {"type": "T", "data": 2}]',
      'order-1', row(%s, %s)::milepost.position, '{T}'
    )
    """
    (second, _) = conn.execute(many, first).fetchall()
    assert history(mp) == [Position(*first), Position(*second)]
    with pytest.raises(pg.NullValueNotAllowed, match="the position is null"):
        conn.execute("select milepost.append_unless_newer('T', '{}', 'k', null)")


@dataclass
class Contest:
    """Writers that each append after the last message they know of, and note it."""

    url: str
    attempts: int
    _left: list[int] = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._left = [self.attempts]

    def run(self, writers: int) -> int:
        """How many have won."""
        with ThreadPoolExecutor(writers) as pool:
            found: list[Future[int]] = [pool.submit(self._write) for _ in range(writers)]
            return sum(each.result() for each in found)

    def _next(self) -> bool:
        with self._lock:
            self._left[0] -= 1
            return self._left[0] >= 0

    def _write(self) -> int:
        after, won = Position.BEGINNING, 0
        with db.connect(self.url) as conn:
            while self._next():
                try:
                    (after,) = append(conn, message(after=str(after)), unless=unless(after))
                    won += 1
                except AppendConflict as conflict:
                    after = conflict.positions[-1]
        return won


def check_chain(mp: Milepost, won: int) -> None:
    """Each has appended after the message before it: one winner for each position."""
    found = list(mp.read(key=KEY))
    assert len(found) == won > 0
    assert found[0].data["after"] == str(Position.BEGINNING)
    assert all(later.data["after"] == str(each.position) for each, later in pairwise(found))


def test_of_32_writers_one_wins_each_position(mp: Milepost, url: str) -> None:
    check_chain(mp, Contest(url, attempts=1500).run(writers=32))


@pytest.mark.soak
def test_of_32_writers_one_wins_each_position_in_many_attempts(mp: Milepost, url: str) -> None:
    attempts = min(MOST_ATTEMPTS, int(SECONDS * ATTEMPTS_A_SECOND))
    check_chain(mp, Contest(url, attempts).run(writers=32))
