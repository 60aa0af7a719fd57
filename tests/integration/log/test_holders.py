"""What holds the horizon back in each order, who is named for it, and how it is freed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row

from milepost import Message, Milepost, append, db, log
from milepost.db import Connection
from milepost.sql import LogOrder
from tests.server import TestServer
from tests.waiting import wait_until


@dataclass(frozen=True, slots=True)
class Holder:
    """A session with an open transaction, or one that has prepared its transaction."""

    conn: Connection
    url: str
    gid: str | None = None

    @property
    def database(self) -> str:
        return str(conninfo_to_dict(self.url)["dbname"])

    def end(self) -> None:
        self.conn.execute("commit" if self.gid is None else f"commit prepared '{self.gid}'")

    def is_named_in(self, row: dict[str, Any]) -> bool:
        if self.gid is not None:
            return bool(row["prepared"] == self.gid)
        return bool(row["pid"] == self.conn.info.backend_pid)


@dataclass(frozen=True, slots=True)
class Places:
    """Where a transaction can be open: in the log's database, or in another of the cluster."""

    here: str
    elsewhere: str
    opened: ExitStack

    def begin(self, url: str, *statements: str) -> Holder:
        conn = db.connect(url, application_name="the holder")
        self.opened.callback(conn.close)
        for statement in ("begin", *statements):
            conn.execute(statement)
        return Holder(conn, url)

    def prepare(self, url: str, *statements: str) -> Holder:
        gid = f"milepost_{uuid4().hex}"
        holder = self.begin(url, *statements, f"prepare transaction '{gid}'")
        return Holder(holder.conn, url, gid)


Hold = Callable[[Places], Holder]
APPEND = "select milepost.append('Held', '{}')"
WRITE = "insert into things values (2)"


def idle_appender(places: Places) -> Holder:
    return places.begin(places.here, APPEND)


def prepared_appender(places: Places) -> Holder:
    # PREPARE TRANSACTION refuses a transaction that has sent a NOTIFY.
    return places.prepare(places.here, "set local milepost.notify = off", APPEND)


def prepared_appender_with_savepoint(places: Places) -> Holder:
    """Its savepoint has a transaction id, and a lock on it, of its own."""
    return places.prepare(
        places.here, "set local milepost.notify = off", "savepoint half_way", APPEND
    )


def idle_writer(places: Places) -> Holder:
    return places.begin(places.here, WRITE)


def writer_in_another_database(places: Places) -> Holder:
    return places.begin(places.elsewhere, WRITE)


def writer_of_a_temporary_table(places: Places) -> Holder:
    return places.begin(places.here, "create temporary table scratch (n integer)")


def prepared_writer(places: Places) -> Holder:
    return places.prepare(places.here, WRITE)


def prepared_writer_in_another_database(places: Places) -> Holder:
    return places.prepare(places.elsewhere, WRITE)


def row_locker(places: Places) -> Holder:
    return places.begin(places.here, "select n from things for update")


def snapshot(places: Places) -> Holder:
    return places.begin(
        places.here,
        "set transaction isolation level repeatable read",
        "select count(*) from things",
    )


def snapshot_in_another_database(places: Places) -> Holder:
    return places.begin(
        places.elsewhere,
        "set transaction isolation level repeatable read",
        "select count(*) from things",
    )


def user_of_advisory_locks(places: Places) -> Holder:
    """Also with the two keys that look most like a floor: the table's oid and a low number."""
    return places.begin(
        places.here,
        "select pg_advisory_xact_lock(0)",
        "select pg_advisory_lock(42)",
        "select pg_advisory_xact_lock('milepost.messages'::regclass::oid::integer, 0)",
        "select pg_advisory_xact_lock_shared('milepost.messages'::regclass::oid::bigint)",
    )


def listener(places: Places) -> Holder:
    return places.begin(places.here, "listen milepost", "select pg_notify('milepost', '')")


def reader_of_the_log(places: Places) -> Holder:
    return places.begin(places.here, "select milepost.horizon()", "select milepost.read()")


APPENDERS: list[Hold] = [idle_appender, prepared_appender, prepared_appender_with_savepoint]
WRITERS: list[Hold] = [
    idle_writer,
    writer_in_another_database,
    writer_of_a_temporary_table,
    prepared_writer,
    prepared_writer_in_another_database,
    row_locker,
]
OTHERS: list[Hold] = [
    snapshot,
    snapshot_in_another_database,
    user_of_advisory_locks,
    listener,
    reader_of_the_log,
]


def named(hold: Hold) -> str:
    return getattr(hold, "__name__", "hold").replace("_", " ")


@pytest.fixture(scope="module")
def elsewhere(server: TestServer) -> Iterator[str]:
    """The URL of another database of the cluster."""
    name = server.create_database("elsewhere")
    with db.connect(server.url(name)) as conn:
        conn.execute("create table things as select 1 as n")
    yield server.url(name)
    server.drop_database(name)


@pytest.fixture
def places(url: str, elsewhere: str) -> Iterator[Places]:
    with db.connect(url) as conn:
        conn.execute("create table things as select 1 as n")
        allowed = conn.execute("show max_prepared_transactions").fetchone()
    if allowed == ("0",):
        pytest.skip("the server has max_prepared_transactions = 0")
    with ExitStack() as opened:
        opened.callback(roll_back_prepared, url, elsewhere)
        yield Places(url, elsewhere, opened)


def roll_back_prepared(*urls: str) -> None:
    """A prepared transaction outlives its session, and its database could not be dropped."""
    for url in urls:
        with db.connect(url) as conn:
            rows = conn.execute(
                "select gid from pg_prepared_xacts where database = current_database()"
            ).fetchall()
            for (gid,) in rows:
                conn.execute(f"rollback prepared '{gid}'")


def types_read(mp: Milepost) -> list[str]:
    return [message.type for message in mp.read()]


def holders(conn: Connection) -> list[dict[str, Any]]:
    return (
        conn.cursor(row_factory=dict_row)
        .execute("select * from milepost.horizon_holders()")
        .fetchall()
    )


def naming(holder: Holder, conn: Connection) -> dict[str, Any]:
    (row,) = [row for row in holders(conn) if holder.is_named_in(row)]
    return row


def holds(hold: Hold, order: LogOrder) -> bool:
    """Append order: appenders alone. Transaction order: whatever has a transaction id."""
    return hold in APPENDERS or (hold in WRITERS and order == "transaction")


@pytest.mark.parametrize("hold", APPENDERS + WRITERS, ids=named)
def test_a_writing_transaction_holds_only_what_it_can_still_precede(
    hold: Hold, places: Places, mp: Milepost, conn: Connection, order: LogOrder
) -> None:
    holder = hold(places)
    append(conn, Message("Later", {}))
    if holds(hold, order):
        assert types_read(mp) == []
        assert log.horizon(conn).is_held
    else:
        assert types_read(mp) == ["Later"]
        assert not log.horizon(conn).is_held
    holder.end()
    expected = ["Held", "Later"] if hold in APPENDERS else ["Later"]
    wait_until(lambda: types_read(mp) == expected)


@pytest.mark.parametrize("hold", OTHERS, ids=named)
def test_a_transaction_that_writes_nothing_never_holds(
    hold: Hold, places: Places, mp: Milepost, conn: Connection
) -> None:
    holder = hold(places)
    append(conn, Message("Later", {}))
    wait_until(lambda: types_read(mp) == ["Later"])
    assert not any(holder.is_named_in(row) for row in holders(conn))
    holder.end()
    wait_until(lambda: types_read(mp) == ["Later"])


@pytest.mark.parametrize("hold", APPENDERS + WRITERS, ids=named)
def test_who_holds_is_named_and_who_does_not_is_not(
    hold: Hold, places: Places, conn: Connection, order: LogOrder
) -> None:
    holder = hold(places)
    if not holds(hold, order):
        assert holders(conn) == []
        return
    row = naming(holder, conn)
    assert row["database"] == holder.database
    assert row["username"] == conn.info.user
    assert row["age"].total_seconds() >= 0
    if holder.gid is None:
        assert row["application"] == "the holder"
        assert row["state"] == "idle in transaction"
        assert row["query"]
    else:
        assert (row["pid"], row["state"]) == (None, "prepared")


@pytest.mark.parametrize("hold", APPENDERS + WRITERS, ids=named)
def test_the_remedy_frees_the_horizon(
    hold: Hold, places: Places, mp: Milepost, conn: Connection, order: LogOrder
) -> None:
    holder = hold(places)
    append(conn, Message("Later", {}))
    if holds(hold, order):
        row = naming(holder, conn)
        # A prepared transaction can only be ended in its own database.
        with db.connect(holder.url) as own:
            own.execute(row["remedy"])
    wait_until(lambda: types_read(mp) == ["Later"])
    assert not any(holder.is_named_in(row) for row in holders(conn))


def test_who_appends_several_times_is_named_once(places: Places, conn: Connection) -> None:
    holder = idle_appender(places)
    append(conn, Message("Between", {}))  # so that the second floor is another one
    for _ in range(2):
        holder.conn.execute(APPEND)
    assert naming(holder, conn)["state"] == "idle in transaction"


def test_the_oldest_holder_is_named_first(places: Places, conn: Connection) -> None:
    elder, younger = idle_appender(places), idle_appender(places)
    pids = [row["pid"] for row in holders(conn)]
    own = [elder.conn.info.backend_pid, younger.conn.info.backend_pid]
    assert [pid for pid in pids if pid in own] == own


@pytest.mark.parametrize("order", ["transaction"])
def test_a_message_of_an_early_transaction_sorts_before_what_committed_earlier(
    places: Places, mp: Milepost, conn: Connection
) -> None:
    early = places.begin(places.here, WRITE)
    append(conn, Message("Committed first", {}))
    early.conn.execute("select milepost.append('Began first', '{}')")
    early.end()
    wait_until(lambda: types_read(mp) == ["Began first", "Committed first"])
