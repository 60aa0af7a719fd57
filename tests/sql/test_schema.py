"""The schema: what the file says, where its objects live, and that two of them get along."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tools.site.sql_reference import tables

from milepost import Message, Milepost, append, db, log, migrate
from milepost.db import Connection
from milepost.sql import LogOrder

OTHER = "other_log"


TABLES = """
select relname from pg_class where relnamespace = 'milepost'::regnamespace and relkind = 'r'
"""


@pytest.mark.parametrize("order", ["append"])
def test_the_file_says_of_every_table_what_it_is_for(conn: Connection) -> None:
    """The reference is made from the file: it must find all of them there, and their comments."""
    assert {table.name for table in tables()} == {name for (name,) in conn.execute(TABLES)}
    assert not [table.name for table in tables() if not table.comment]


OBJECTS = """
    select 'relation', oid::regclass::text, relnamespace::regnamespace::text from pg_class
    where relnamespace <> 'pg_toast'::regnamespace
    union all
    select 'function', oid::regprocedure::text, pronamespace::regnamespace::text from pg_proc
    union all
    select 'type', oid::regtype::text, typnamespace::regnamespace::text from pg_type
    where typnamespace <> 'pg_toast'::regnamespace
    union all
    select 'operator', oid::regoperator::text, oprnamespace::regnamespace::text from pg_operator
    union all
    select 'collation', collname, collnamespace::regnamespace::text from pg_collation
    union all
    select 'schema', nspname, nspname from pg_namespace
    union all
    select 'extension', extname, 'no schema' from pg_extension
    union all
    select 'event trigger', evtname, 'no schema' from pg_event_trigger
    union all
    select 'publication', pubname, 'no schema' from pg_publication
    union all
    select 'cast', oid::text, 'no schema' from pg_cast
    union all
    select 'role', rolname, 'no schema' from pg_roles
    union all
    select 'setting', setrole || '/' || setdatabase, 'no schema' from pg_db_role_setting
"""


@pytest.mark.parametrize("schema", ["milepost", OTHER])
def test_every_object_lives_in_the_one_schema(
    empty_database: str, order: LogOrder, schema: str
) -> None:
    with db.connect(empty_database) as conn:
        before = set(conn.execute(OBJECTS).fetchall())
        migrate.migrate(conn, schema, order)
        made = set(conn.execute(OBJECTS).fetchall()) - before
    assert {place for _, _, place in made} == {schema}
    assert ("relation", f"{schema}.messages", schema) in made
    assert ("function", f"{schema}.horizon()", schema) in made


@pytest.fixture
def other(url: str, order: LogOrder) -> Milepost:
    """A second log in the same database."""
    made = Milepost(url, schema=OTHER)
    made.migrate(order)
    return made


@pytest.fixture
def writer(url: str) -> Iterator[Connection]:
    with db.connect(url) as conn:
        yield conn


def types_read(mp: Milepost) -> list[str]:
    return [message.type for message in mp.read()]


def test_one_transaction_appends_to_two_logs_or_to_none(
    mp: Milepost, other: Milepost, writer: Connection
) -> None:
    many = [Message("Many", {"n": n}) for n in range(300)]
    with writer.transaction(force_rollback=True):
        mp.append(writer, Message("Undone", {}))
        other.append(writer, *many)
    with writer.transaction():
        mp.append(writer, Message("Here", {}))
        other.append(writer, Message("There", {}), Message("There too", {}))
        mp.append(writer, *many)
    assert types_read(mp) == ["Here"] + ["Many"] * 300
    assert types_read(other) == ["There", "There too"]


def test_the_sql_functions_of_a_second_schema_work_on_its_own_log(
    mp: Milepost, other: Milepost, writer: Connection
) -> None:
    writer.execute("select other_log.append('One', '{}', 'key')")
    writer.execute("""select other_log.append_many('[{"type": "Two", "data": 1}]')""")
    writer.execute("insert into other_log.messages (type, data) values ('Three', '{}')")
    rows = writer.execute(
        "select type from other_log.read(row(0, 0)::other_log.position, "
        "segment => row(0, 0)::other_log.segment)"
    ).fetchall()
    assert rows == [("One",), ("Two",), ("Three",)]
    assert types_read(mp) == []


@pytest.mark.parametrize("order", ["append"])
def test_an_appender_to_one_log_does_not_hold_the_horizon_of_the_other(
    mp: Milepost, other: Milepost, writer: Connection, url: str
) -> None:
    with db.connect(url) as appender:
        writer.execute("begin")
        other.append(writer, Message("In flight there", {}))
        mp.append(appender, Message("Here", {}))
        other.append(appender, Message("There", {}))
        assert types_read(mp) == ["Here"]
        assert types_read(other) == []
        assert not log.horizon(appender).is_held
        assert log.horizon(appender, OTHER).is_held
        assert holders(appender, "milepost") == []
        assert holders(appender, OTHER) == [(writer.info.backend_pid,)]
        writer.execute("commit")
    assert types_read(other) == ["In flight there", "There"]


def holders(conn: Connection, schema: str) -> list[tuple[int]]:
    return conn.execute(f"select pid from {schema}.horizon_holders()").fetchall()  # noqa: S608


def test_each_log_wakes_its_own_readers(
    mp: Milepost, other: Milepost, writer: Connection, url: str
) -> None:
    with db.connect(url) as listener:
        listener.execute("listen milepost")
        listener.execute(f"listen {OTHER}")
        mp.append(writer, Message("Here", {}))
        other.append(writer, Message("There", {}))
        with writer.transaction():
            other.append(writer, Message("Both", {}))
            mp.append(writer, Message("Both", {}))
        heard = [n.channel for n in listener.notifies(stop_after=4, timeout=60)]
    assert heard[:2] == ["milepost", OTHER]
    assert sorted(heard[2:]) == ["milepost", OTHER]


def test_a_log_of_the_other_order_may_stand_beside(
    url: str, mp: Milepost, order: LogOrder, writer: Connection
) -> None:
    beside = Milepost(url, schema=OTHER)
    beside.migrate("append" if order == "transaction" else "transaction")
    with writer.transaction():
        append(writer, Message("Here", {}))
        beside.append(writer, Message("There", {}))
    assert (types_read(mp), types_read(beside)) == (["Here"], ["There"])
