"""What is particular to some of the objects that `append` and `put` take."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import uuid

import asyncpg
import psycopg
import psycopg2
import pytest
import sqlalchemy
from psycopg.sql import SQL, Identifier
from psycopg2.extras import RealDictCursor
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from milepost import Job, Message, Milepost, append, put
from milepost.db import Connection
from milepost.errors import ConnectionUnusable, NotPermitted, ReadOnlyTransaction
from tests.integration.drivers.kinds import (
    KINDS,
    Django,
    Kind,
    Sqlalchemy,
    asyncpg_parts,
    django_settings,
    sqlalchemy_url,
)
from tests.integration.drivers.test_transactions import NOTE
from tests.integration.telemetry.conftest import Recorded
from tests.integration.telemetry.conftest import recorded as recorded


class Base(DeclarativeBase): ...


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)


def test_the_trace_and_the_instruments_are_the_same(
    kind: Kind, mp: Milepost, conn: Connection, recorded: Recorded
) -> None:
    topic = uuid.uuid4().hex
    with recorded.tracer.start_as_current_span("request") as span:
        kind.run(append(kind.given, Message("Placed", 1, topic=topic)))
        kind.run(put(kind.given, Job(topic)))
    kind.commit()
    (point,) = recorded.measured(
        "messaging.client.sent.messages", destination__name=topic, operation__name="append"
    )
    assert point.value == 1
    wanted = f"{span.get_span_context().trace_id:032x}"
    (message,) = mp.read()
    assert wanted in message.metadata["traceparent"]
    assert wanted in str(conn.execute("select trace from milepost.jobs").fetchone())


def test_an_object_of_another_kind_is_refused_by_its_name(url: str) -> None:
    engine = create_engine(sqlalchemy_url(url))
    for given in (engine, 1, None):
        with pytest.raises(
            TypeError, match=rf"is a {type(given).__name__}: .*SQLAlchemy\. Nothing"
        ):
            append(given, Message("Placed", 1))  # type: ignore[call-overload]


def test_another_database_of_sqlalchemy_is_refused() -> None:
    with (
        create_engine("sqlite://").connect() as connection,
        pytest.raises(TypeError, match=r"sqlite\+pysqlite.*nothing was written"),
    ):
        append(connection, Message("Placed", 1))


def test_what_the_orm_writes_and_what_is_appended_commit_together(
    url: str, mp: Milepost, conn: Connection
) -> None:
    engine = create_engine(sqlalchemy_url(url))
    Base.metadata.create_all(engine)
    with Session(engine) as session, session.begin():
        session.add(Order(id=1))
        append(session, Message("Placed", 1))
        put(session, Job("emails"))
    with Session(engine) as session:
        session.add(Order(id=2))
        append(session, *[Message("Placed", 2)] * 300)
        session.rollback()
    engine.dispose()
    assert conn.execute("select id from orders").fetchall() == [(1,)]
    assert [m.data for m in mp.read()] == [1]


def test_a_session_whose_flush_has_failed_is_refused_until_it_is_rolled_back(
    url: str, mp: Milepost
) -> None:
    engine = create_engine(sqlalchemy_url(url))
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add_all([Order(id=1), Order(id=2)])
        session.flush()
        session.expunge_all()
        session.add(Order(id=1))
        with pytest.raises(sqlalchemy.exc.IntegrityError):
            session.flush()
        with pytest.raises(ConnectionUnusable, match="nothing was written"):
            append(session, Message("Placed", 1))
        session.rollback()
        append(session, Message("Placed", 1))
        session.commit()
    engine.dispose()
    assert len(list(mp.read())) == 1


def test_a_session_that_is_closed_for_good_is_refused(url: str) -> None:
    engine = create_engine(sqlalchemy_url(url))
    session = Session(engine, close_resets_only=False)
    session.close()
    with pytest.raises(ConnectionUnusable, match=r"Session: nothing was written.*closed"):
        append(session, Message("Placed", 1))


@pytest.mark.parametrize("kind_of", [k for k in KINDS if issubclass(k, Sqlalchemy)])
def test_errors_that_are_not_ours_are_those_of_sqlalchemy(
    kind_of: type[Kind], url: str, conn: Connection
) -> None:
    conn.execute("create unique index on milepost.messages (id)")
    kind = kind_of(url)
    message = Message("Twice", 1)
    with pytest.raises(sqlalchemy.exc.IntegrityError, match="duplicate key"):
        kind.run(append(kind.given, message, message))
    kind.dispose()


def test_errors_that_are_not_ours_are_those_of_django(url: str, conn: Connection) -> None:
    from django.db.utils import IntegrityError

    conn.execute("create unique index on milepost.messages (id)")
    kind, message = Django(url), Message("Twice", 1)
    with pytest.raises(IntegrityError, match="duplicate key"):
        kind.run(append(kind.given, message, message))
    kind.dispose()


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
def test_a_function_of_run_sync_appends_through_its_session(
    url: str, mp: Milepost, driver: str
) -> None:
    def work(session: Session) -> None:
        append(session, Message("One", 1))
        append(session, *(Message("Many", n) for n in range(300)))
        put(session, Job("emails"))

    async def main() -> None:
        engine = create_async_engine(sqlalchemy_url(url, driver))
        async with AsyncSession(engine) as session, session.begin():
            await session.run_sync(work)
        await engine.dispose()

    asyncio.run(main())
    assert len(list(mp.read())) == 301


def test_codecs_that_a_program_has_set_for_asyncpg_change_nothing(url: str, mp: Milepost) -> None:
    async def main() -> None:
        conn = await asyncpg.connect(**asyncpg_parts(url))
        for name in ("json", "uuid", "timestamptz", "interval"):
            await conn.set_type_codec(
                name, encoder=json.dumps, decoder=json.loads, schema="pg_catalog"
            )
        await append(conn, Message("One", {"n": 1}))
        await append(conn, Message("Two", {"n": 2}), Message("Three", {"n": 3}))
        await put(conn, Job("emails", priority=1))
        await conn.close()

    asyncio.run(main())
    assert [m.data for m in mp.read()] == [{"n": 1}, {"n": 2}, {"n": 3}]


def test_a_transaction_of_asyncpg_that_was_begun_in_sql(url: str, mp: Milepost) -> None:
    async def main() -> None:
        conn = await asyncpg.connect(**asyncpg_parts(url))
        await conn.execute("begin")
        await append(conn, *(Message("Many", n) for n in range(300)))
        await conn.execute("rollback")
        await conn.execute("begin")
        await append(conn, *(Message("Many", n) for n in range(300)))
        await conn.execute("commit")
        await conn.close()

    asyncio.run(main())
    assert len(list(mp.read())) == 300


def test_a_connection_of_psycopg2_that_gives_dicts(url: str, mp: Milepost) -> None:
    with psycopg2.connect(url, cursor_factory=RealDictCursor) as conn:
        positions = append(conn, Message("One", 1))
    conn.close()
    assert [m.position for m in mp.read()] == positions


def test_the_role_is_named_and_the_reason_why_it_is_read_only(kind: Kind, conn: Connection) -> None:
    role = f"r{uuid.uuid4().hex}"
    kind.execute("set transaction read only")
    with pytest.raises(ReadOnlyTransaction, match="BEGIN READ ONLY"):
        kind.run(append(kind.given, Message("Placed", 1)))
    kind.rollback()
    conn.execute(SQL("create role {}").format(Identifier(role)))
    kind.execute(f"set local role {role}")
    with pytest.raises(NotPermitted) as refusal:
        kind.run(append(kind.given, Message("Placed", 1)))
    kind.rollback()
    conn.execute(SQL("drop role {}").format(Identifier(role)))
    assert refusal.value.role == conn.info.user  # of the session


DJANGO_WITH_PSYCOPG2 = """
import json, sys

from milepost import Job, Message, append, put
from milepost.errors import NotMigrated

psycopg, sys.modules["psycopg"] = sys.modules["psycopg"], None  # Django prefers it where it is
from django.conf import settings
settings.configure(DATABASES={"default": json.loads(sys.argv[1])})
import django
from django.db import connection, transaction
django.setup()
connection.ensure_connection()
sys.modules["psycopg"] = psycopg

assert type(connection.connection).__module__ == "psycopg2.extensions"
with transaction.atomic():
    append(connection, Message("One", {"n": 1}))
    append(connection, *(Message("Many", n) for n in range(300)))
    put(connection, Job("emails", priority=1))
with transaction.atomic():
    append(connection, Message("Undone", {}))
    transaction.set_rollback(True)
try:
    append(connection, Message("One", {}), schema="nowhere")
except NotMigrated:
    append(connection, Message("Two", {}))
"""


def test_django_with_psycopg2(url: str, mp: Milepost) -> None:
    """In a process of its own: Django takes psycopg 3 where it finds it."""
    given = json.dumps(django_settings(url))
    subprocess.run([sys.executable, "-c", DJANGO_WITH_PSYCOPG2, given], check=True, timeout=60)
    types = [m.type for m in mp.read()]
    assert types == ["One", *["Many"] * 300, "Two"]


def test_a_connection_of_psycopg_with_other_cursors(url: str, mp: Milepost) -> None:
    for factory in (psycopg.ClientCursor, psycopg.RawCursor):
        with psycopg.connect(url, cursor_factory=factory) as conn:
            mp.append(conn, Message("One", 1), Message("Two", NOTE))
            mp.put(conn, Job("emails", b"\\x00"))
    assert [m.data for m in mp.read()] == [1, NOTE] * 2


def test_nothing_is_imported_that_the_caller_has_not_imported() -> None:
    program = (
        "import sys, milepost, milepost.cli; "
        "sys.exit(any(n in sys.modules for n in ('sqlalchemy', 'asyncpg', 'psycopg2', 'django')))"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_a_connection_of_sqlalchemy_needs_no_orm(url: str) -> None:
    program = f"""
import sys
from sqlalchemy import create_engine
from milepost import Message, append
with create_engine({sqlalchemy_url(url).render_as_string(hide_password=False)!r}).begin() as conn:
    append(conn, Message("Placed", 1))
sys.exit(any(n in sys.modules for n in ('sqlalchemy.orm', 'sqlalchemy.ext.asyncio', 'asyncpg')))
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_a_text_query_and_an_append_of_one_connection_share_its_transaction(
    url: str, mp: Milepost
) -> None:
    """SQLAlchemy begins with its first statement, which may be ours."""
    engine = create_engine(sqlalchemy_url(url))
    with engine.connect() as connection:
        append(connection, Message("Placed", 1))
        assert connection.in_transaction()
        connection.execute(text("create table t (n integer)"))
        connection.rollback()
        append(connection, Message("Placed", 2))
        connection.commit()
        assert not connection.in_transaction()
    engine.dispose()
    assert [m.data for m in mp.read()] == [2]
