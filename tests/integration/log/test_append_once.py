"""Append with `once`: a producer may repeat an append whose answer was lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import errors as pg

from milepost import (
    AppendConflict,
    Message,
    Milepost,
    Newer,
    Position,
    append,
    db,
)
from milepost.db import Connection
from milepost.errors import DuplicateId, IndexMissing, UnsafeIsolation
from milepost.log.append import COPY_FROM
from milepost.sql import LogOrder
from tests.sabotage import replace_in
from tests.waiting import wait_until

WAITING = "select count(*) from pg_locks where not granted"


@pytest.fixture
def order() -> LogOrder:
    """Both, where it matters."""
    return "append"


@pytest.fixture
def mp(url: str) -> Milepost:
    made = Milepost(url)
    made.migrate(key_index=True, id_index=True)
    return made


@pytest.fixture
def other(mp: Milepost) -> Iterator[Connection]:
    with mp.connect() as conn:
        yield conn


def ids(mp: Milepost) -> list[UUID]:
    return [message.id for message in mp.read()]


def remove_all(mp: Milepost) -> int:
    mp.retention(keep=timedelta(0), no_archive=True)
    return mp.remove_old().number


def test_a_known_message_is_left_out_and_its_position_is_the_answer(
    mp: Milepost, conn: Connection
) -> None:
    message = Message("T", {})
    first = append(conn, message, once=True)
    assert append(conn, message, once=True) == first
    assert append(conn, Message("Other", {}, id=message.id), once=True) == first
    assert [each.type for each in mp.read()] == ["T"]


def test_one_that_was_appended_without_once_is_known_too(conn: Connection, mp: Milepost) -> None:
    message = Message("T", {})
    first = append(conn, message)
    assert append(conn, message, once=True) == first


def test_without_once_a_known_id_is_refused(conn: Connection, mp: Milepost) -> None:
    message = Message("T", {})
    append(conn, message)
    with pytest.raises(DuplicateId, match=rf"{message.id}.*pass once=True"):
        append(conn, message)


@pytest.mark.parametrize("order", ["append", "transaction"])
@pytest.mark.parametrize("count", [6, COPY_FROM + 2])
def test_new_and_known_ones_in_one_call_are_in_order(
    conn: Connection, mp: Milepost, count: int
) -> None:
    messages = [Message("T", n) for n in range(count)]
    known = append(conn, messages[3], messages[1], once=True)
    positions = append(conn, *messages, messages[0], once=True)
    assert [positions[3], positions[1]] == known
    assert positions[-1] == positions[0]
    new = [each for n, each in enumerate(messages) if n not in (1, 3)]
    assert ids(mp) == [messages[3].id, messages[1].id, *(each.id for each in new)]
    found = {message.position: message.id for message in mp.read()}
    assert [found[position] for position in positions[:-1]] == [each.id for each in messages]


def test_all_of_several_producers_get_the_position_of_the_one_row(mp: Milepost, url: str) -> None:
    messages, gate = [Message("T", n) for n in range(20)], Barrier(8)

    def produce() -> list[Position]:
        with db.connect(url) as conn:
            found = []
            for message in messages:
                gate.wait(30)
                found += append(conn, message, once=True)
            return found

    with ThreadPoolExecutor(8) as pool:
        answers = [each.result() for each in [pool.submit(produce) for _ in range(8)]]
    assert answers == [[message.position for message in mp.read()]] * 8
    assert len(answers[0]) == 20


@pytest.mark.parametrize("order", ["append", "transaction"])
@pytest.mark.parametrize("commits", [True, False])
def test_a_producer_waits_for_the_one_that_is_first(
    mp: Milepost, conn: Connection, other: Connection, commits: bool
) -> None:
    message = Message("T", {})
    with ThreadPoolExecutor() as pool:
        with conn.transaction(force_rollback=not commits):
            first = append(conn, message, once=True)
            second = pool.submit(lambda: append(other, message, once=True))
            wait_until(lambda: conn.execute(WAITING).fetchone() != (0,))
        assert (second.result(30) == first) is commits
    assert ids(mp) == [message.id]


@pytest.mark.parametrize("order", ["append", "transaction"])
def test_what_retention_has_removed_is_known_for_7_days(mp: Milepost, conn: Connection) -> None:
    message, later = Message("T", {}, key="k"), Message("T", {}, key="k")
    first = append(conn, message, once=True)
    assert remove_all(mp) == 1
    assert append(conn, message, once=True) == first
    with pytest.raises(AppendConflict) as caught:
        append(conn, later, unless=Newer(key="k", after=Position.BEGINNING))
    assert caught.value.positions == first
    assert ids_after(mp, first[0]) == []
    conn.execute("update milepost.removed_messages set removed_at = now() - interval '8 days'")
    append(conn, later)
    remove_all(mp)
    assert append(conn, message, once=True) > first


def ids_after(mp: Milepost, position: Position) -> list[UUID]:
    return [message.id for message in mp.read(position)]


def test_a_removal_in_the_same_moment_appends_nothing_twice(
    mp: Milepost, conn: Connection, other: Connection
) -> None:
    """An INSERT that waits for the removal is not prevented by a row that is gone then."""
    message = Message("T", {})
    (first,) = append(conn, message, once=True)
    mp.retention(keep=timedelta(0), no_archive=True)
    with ThreadPoolExecutor() as pool, conn.transaction():
        row = f"row({first.transaction_id}, {first.position})::milepost.position"
        conn.execute(f"select milepost.remove_messages(10, {row})".encode())
        meanwhile = pool.submit(lambda: append(other, message, once=True))
        assert meanwhile.result(30) == [first]
    with pytest.raises(pg.SerializationFailure, match="removed a message"):
        _append_blind(conn, other, message)
    assert ids_after(mp, first) == []


def _append_blind(conn: Connection, other: Connection, message: Message) -> None:
    """As one that looked the ids up before the removal."""
    lookup = "known := array(select k.id from {schema}.known_ids(ids) as k);"
    replace_in(conn, "append_missing", lookup, "known := '{}';")
    append(other, message, once=True)


def test_nothing_is_noted_without_the_indexes(url: str) -> None:
    mp = Milepost(url)
    with mp.connect() as conn:
        append(conn, Message("T", {}))
        assert remove_all(mp) == 1
        assert conn.execute("select count(*) from milepost.removed_messages").fetchone() == (0,)


@pytest.mark.parametrize("order", ["append", "transaction"])
def test_a_conditional_append_may_be_repeated(mp: Milepost, conn: Connection) -> None:
    """Its own messages do not count as newer."""
    messages = [Message("T", n, key="k") for n in range(2)]
    unless = Newer(key="k", after=Position.BEGINNING)
    first = append(conn, messages[0], unless=unless, once=True)
    assert append(conn, messages[0], unless=unless, once=True) == first
    both = append(conn, *messages, unless=unless, once=True)
    assert both[:1] == first
    with pytest.raises(AppendConflict) as caught:
        append(conn, Message("T", 2, key="k"), unless=unless, once=True)
    assert caught.value.positions == both


def test_without_the_index_the_command_is_named(url: str, mp: Milepost, conn: Connection) -> None:
    conn.execute("drop index milepost.messages_id")
    with pytest.raises(IndexMissing, match="migrate --with-id-index"):
        append(conn, Message("T", {}), once=True)


def test_other_isolation_levels_are_refused(mp: Milepost, conn: Connection) -> None:
    conn.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
    with pytest.raises(UnsafeIsolation, match="READ COMMITTED"), conn.transaction():
        append(conn, Message("T", {}), once=True)


def test_on_an_async_connection(mp: Milepost, url: str) -> None:
    async def run() -> list[Position]:
        message = Message("T", {})
        async with await db.connect_async(url) as conn:
            first = await append(conn, message, once=True)
            assert await mp.append(conn, message, once=True) == first
            return first

    assert asyncio.run(run()) == [message.position for message in mp.read()]


def test_from_sql(mp: Milepost, conn: Connection) -> None:
    id_ = uuid4()
    for data in ("'{}'", "'{}'::json", "'{}'::jsonb"):
        conn.execute(f"select milepost.append_once('T', {data}, %s, 'k')".encode(), [id_])
    given = [{"type": "T", "data": n, "id": str(id_ if n == 1 else uuid4())} for n in range(3)]
    many = "select * from milepost.append_many_once(%s::json)"
    rows = conn.execute(many, [json.dumps(given)]).fetchall()
    assert conn.execute(many, [json.dumps(given)]).fetchall() == rows
    assert conn.execute(many, ["[]"]).fetchall() == []
    found = list(mp.read())
    assert (found[0].id, found[0].key) == (id_, "k")
    assert [Position(*row) for row in rows] == [found[n].position for n in (1, 0, 2)]
    with pytest.raises(pg.NotNullViolation):
        conn.execute("select milepost.append_once('T', '{}', null)")
