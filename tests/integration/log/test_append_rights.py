"""Who may insert the columns of a message may append, in every way, and may do nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from uuid import uuid4

import psycopg
import pytest

from milepost import AppendConflict, Message, Milepost, Newer, Position, append, db
from milepost.db import Connection
from milepost.log.append import COPY_FROM

# One INSERT, one INSERT of arrays, COPY.
COUNTS = [1, 5, COPY_FROM + 1]


@pytest.fixture
def role(conn: Connection) -> Iterator[str]:
    """The least that an appender needs: the schema, and the columns that an append names."""
    name = f"milepost_appender_{uuid4().hex[:8]}"
    conn.execute(f"create role {name}".encode())
    conn.execute(f"grant usage on schema milepost to {name}".encode())
    columns = "id, topic, key, type, data, metadata"
    conn.execute(f"grant insert ({columns}) on milepost.messages to {name}".encode())
    yield name
    conn.execute(f"drop owned by {name}".encode())
    conn.execute(f"drop role {name}".encode())


@pytest.fixture
def appender(url: str, role: str) -> Iterator[Connection]:
    with db.connect(url) as conn:
        conn.execute(f"set role {role}".encode())
        yield conn


def messages(count: int) -> list[Message]:
    return [Message("T", {"n": n}) for n in range(count)]


def positions(mp: Milepost) -> list[Position]:
    return [message.position for message in mp.read()]


@pytest.mark.parametrize("count", COUNTS)
def test_python_appends_and_learns_the_positions(
    appender: Connection, mp: Milepost, count: int
) -> None:
    first = append(appender, *messages(count))
    with appender.transaction():
        second = append(appender, *messages(count)) + append(appender, *messages(count))
    assert positions(mp) == first + second
    assert len({*first, *second}) == 3 * count


@pytest.mark.parametrize("count", COUNTS)
def test_conditions_need_no_more(appender: Connection, mp: Milepost, count: int) -> None:
    mp.migrate(key_index=True, id_index=True)
    given = messages(count)
    newer = Newer(key="k", after=Position.BEGINNING)
    first = append(appender, *given, unless=newer)
    assert append(appender, *given, once=True) == first == positions(mp)
    append(appender, Message("T", {}, key="k"), unless=newer)
    with pytest.raises(AppendConflict):
        append(appender, Message("T", {}, key="k"), unless=newer)


@pytest.mark.parametrize("count", COUNTS)
def test_so_does_an_async_connection(url: str, role: str, mp: Milepost, count: int) -> None:
    async def appending() -> list[Position]:
        async with await psycopg.AsyncConnection.connect(url) as conn:
            await conn.execute(f"set role {role}".encode())
            return await append(conn, *messages(count))

    assert asyncio.run(appending()) == positions(mp)


class AppendsMeanwhile(Mapping[str, int]):
    """Metadata that lets somebody else append while it is encoded, amid a COPY."""

    def __init__(self, other: Connection) -> None:
        self.other = other

    def __iter__(self) -> Iterator[str]:
        append(self.other, Message("Other", {}))
        return iter(["n"])

    def __getitem__(self, key: str) -> int:
        return 1

    def __len__(self) -> int:
        return 1


def test_many_beside_another_appender_are_told_apart(
    appender: Connection, conn: Connection, mp: Milepost
) -> None:
    half = messages(COPY_FROM)
    given = [*half, Message("T", {}, metadata=AppendsMeanwhile(conn)), *half]
    found = append(appender, *given)
    read = list(mp.read())
    assert [m.position for m in read if m.type == "T"] == found
    assert len(found) == len(given)
    assert [m.type for m in read].count("Other") == 1


@pytest.mark.parametrize("typed", ["", "::text", "::json", "::jsonb"])
def test_sql_appends_and_answers_with_the_positions(
    appender: Connection, mp: Milepost, typed: str
) -> None:
    given = json.dumps([{"type": "T", "data": n} for n in range(3)])
    found = [
        row
        for call in (f"append('T', '{{}}'{typed})", f"append_many('{given}'{typed})")
        for row in appender.execute(f"select * from milepost.{call}".encode())  # noqa: S608
    ]
    assert [Position(*row) for row in found] == positions(mp)
    assert len(found) == 4


def test_a_plain_insert_and_a_copy_need_no_more(appender: Connection, mp: Milepost) -> None:
    appender.execute("insert into milepost.messages (type, data) values ('T', '{}')")
    with appender.cursor().copy("copy milepost.messages (type, data) from stdin") as copy:
        copy.write_row(("T", "{}"))
    assert len(positions(mp)) == 2


@pytest.mark.parametrize(
    "statement",
    [
        "select position from milepost.messages",
        "select * from milepost.read()",
        "insert into milepost.messages (type, data) values ('T', '{}') returning position",
        "insert into milepost.messages (transaction_id, type, data) values (7, 'T', '{}')",
        "insert into milepost.messages (recorded_at, type, data) values (now(), 'T', '{}')",
        "update milepost.messages set type = 'U'",
        "delete from milepost.messages",
        "select nextval('milepost.messages_position_seq')",
        "select currval('milepost.messages_position_seq')",
    ],
)
def test_whatever_else_is_refused(appender: Connection, statement: str) -> None:
    append(appender, Message("T", {}))
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        appender.execute(statement.encode())


def test_the_last_position_is_that_of_the_session(
    appender: Connection, conn: Connection, mp: Milepost
) -> None:
    """And not the newest one: that is somebody else's."""
    (own,) = append(appender, Message("T", {}))
    append(conn, Message("T", {}))
    assert db.one(appender.execute("select milepost.last_position()").fetchone())[0] == own.position
    with (
        pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState),
        mp.connect() as fresh,
    ):
        fresh.execute("select milepost.last_position()")
