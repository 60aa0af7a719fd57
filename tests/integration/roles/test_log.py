"""Writers and readers of the log, each under a role that may do nothing else."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from itertools import islice

from milepost import Append, Message, Milepost, Position, RecordedMessage, append, db, sql
from milepost.checkpoints import CheckpointKey, PostgresCheckpointStore
from milepost.db import Connection
from tests.roles import Roles


def test_a_writer_appends_in_every_way(roles: Roles, mp: Milepost) -> None:
    writer = Milepost(roles.make("append"))
    with writer.connect() as conn:
        with conn.transaction():
            writer.append(conn, Message("One", 1, key="k", topic="t", metadata={"m": 1}))
            writer.append(conn, *(Message("Few", n) for n in range(3)))
            writer.append(conn, *(Message("Many", n) for n in range(300)))
        conn.execute("select milepost.append('Sql', '{}'::json)")
        conn.execute("""select milepost.append_many('[{"type": "Sql", "data": 1}]'::json)""")
        conn.execute("insert into milepost.messages (type, data) values ('Sql', '{}')")
    found = [message.type for message in mp.read()]
    assert found == ["One"] + ["Few"] * 3 + ["Many"] * 300 + ["Sql"] * 3


def test_a_writer_finds_its_positions_among_those_of_others(roles: Roles, mp: Milepost) -> None:
    """What is asked after a COPY if somebody else drew positions meanwhile."""
    message = Message("One", 1)
    with Milepost(roles.make("append")).connect() as conn:
        (position,) = append(conn, message)
        parameters = {"transaction_id": 0, "position": 0, "ids": [message.id]}
        rows = conn.execute(sql.query("appended_since"), parameters).fetchall()
    assert [Position(*row) for row in rows] == [position]


def test_a_writer_of_coroutines_appends(roles: Roles, mp: Milepost) -> None:
    async def write(url: str) -> None:
        async with await db.connect_async(url) as conn:
            await append(conn, Message("One", 1))
            await append(conn, *(Message("Many", n) for n in range(300)))

    asyncio.run(write(roles.make("append")))
    assert len(list(mp.read())) == 301


def test_a_reader_reads_in_every_way(roles: Roles, mp: Milepost, conn: Connection) -> None:
    before = datetime.now(UTC)
    positions = mp.append(conn, *(Message("T", n, key=f"k{n}") for n in range(5)))
    reader = Milepost(roles.make("read"))
    assert [message.data for message in reader.read()] == [0, 1, 2, 3, 4]
    assert [message.data for message in reader.read(before)] == [0, 1, 2, 3, 4]
    assert [m.data for m in islice(reader.read(positions[1], follow=True), 3)] == [2, 3, 4]
    assert reader.horizon() >= positions[-1]
    with reader.connect() as own:
        rows = own.execute("select data from milepost.read(max_count => 2)").fetchall()
    assert rows == [(0,), (1,)]


def test_a_reader_waits_for_processors(roles: Roles, mp: Milepost, conn: Connection) -> None:
    def handle(messages: list[RecordedMessage]) -> None:
        pass

    def handlers(of: Milepost) -> Milepost:
        of.processor("plain", delivery="at_least_once", types=["T"])(handle)
        of.processor("cut", delivery="at_least_once", types=["T"], segments=2)(handle)
        return of

    mp.append(conn, Message("T", 1))
    (last,) = mp.append(conn, Message("Other", 1))
    handlers(mp).run(until="caught_up")
    for processor in handlers(Milepost(roles.make("read"))).processors.values():
        processor.wait_for(last)
        assert processor.caught_up()
        assert processor.position() is not None


def test_a_reader_waits_for_pipelines(roles: Roles, mp: Milepost, conn: Connection) -> None:
    """As a Spark job that starts from a checkpoint, it sees that of a pipeline."""
    (last,) = mp.append(conn, Message("T", 1))
    conn.execute(
        "insert into milepost.pipelines (name, version, code_version, sink, is_active, built_at) "
        "values ('revenue', 1, 1, 'a table', true, now())"
    )
    key = CheckpointKey("revenue", 1)
    PostgresCheckpointStore(conn).store(key, None, last, owner="a driver")
    reader = Milepost(roles.make("read"))
    pipeline = reader.pipeline("revenue", sink=Append("revenue"))(lambda messages: messages)
    pipeline.wait_for(last)
    assert (pipeline.position(), pipeline.caught_up()) == (last, True)
    with reader.connect() as own:
        found = PostgresCheckpointStore(own).load(key)
    assert found is not None
    assert (found.position, found.owner) == (last, "a driver")
