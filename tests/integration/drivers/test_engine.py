"""`Milepost(engine=...)`: the engine's URL for connections of our own, and its pool."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row
from sqlalchemy import Engine, StaticPool, create_engine, event, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from milepost import Message, Milepost, append
from milepost.db import Connection
from milepost.drivers.engine import url_of
from tests.integration.drivers.kinds import sqlalchemy_url

SECRET = "it's a/b@c:d+ %"  # noqa: S105
PLACE = "me:it%27s%20a%2Fb%40c%3Ad%2B%20%25@host:5433/name"


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    made = create_engine(sqlalchemy_url(url), pool_size=1, max_overflow=0, pool_timeout=5)
    yield made
    made.dispose()


def pid_of(conn: Connection) -> int:
    return conn.info.backend_pid


def pooled_pid(engine: Engine) -> int:
    with engine.connect() as connection:
        return int(connection.execute(text("select pg_backend_pid()")).scalar_one())


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2", "asyncpg"])
def test_its_url_is_used_with_its_password_and_its_parameters(driver: str) -> None:
    tls = "ssl" if driver == "asyncpg" else "sslmode"
    make = create_async_engine if driver == "asyncpg" else create_engine
    made = make(f"postgresql+{driver}://{PLACE}?{tls}=require&target_session_attrs=any")
    assert conninfo_to_dict(url_of(made)) == {
        "user": "me", "password": SECRET, "host": "host", "port": "5433", "dbname": "name",
        "sslmode": "require", "target_session_attrs": "any",
    }  # fmt: skip
    mp = Milepost(engine=made)
    assert "a/b" not in repr(mp)


def test_several_hosts_and_a_socket_are_kept() -> None:
    several = create_engine("postgresql+psycopg://me@/name?host=one:5433&host=two:5434")
    socket = create_engine("postgresql+psycopg:///name?host=/run/postgresql")
    assert conninfo_to_dict(url_of(several))["host"] == "one,two"
    assert conninfo_to_dict(url_of(several))["port"] == "5433,5434"
    assert conninfo_to_dict(url_of(socket))["host"] == "/run/postgresql"


def test_an_engine_of_another_database_is_refused() -> None:
    with pytest.raises(TypeError, match="engine is for sqlite"):
        Milepost(engine=create_engine("sqlite://"))


def test_connect_uses_the_pool_and_gives_back_what_is_clean(engine: Engine) -> None:
    mp, first = Milepost(engine=engine), pooled_pid(engine)
    for _ in range(2):
        with mp.connect() as conn, conn.transaction():
            assert pid_of(conn) == first
            append(conn, Message("Placed", 1))
    with pytest.raises(psycopg.errors.DivisionByZero), mp.connect() as conn, conn.transaction():
        append_and_fail(conn)
    assert pooled_pid(engine) == first
    assert [m.type for m in mp.read()] == ["Placed", "Placed"]
    with Session(engine) as session, session.begin():
        append(session, Message("Last", 1))
        assert not session.connection().connection.driver_connection.autocommit  # type: ignore[union-attr]


def append_and_fail(conn: Connection) -> None:
    append(conn, Message("Undone", 1))
    conn.execute("select 1 / 0")


def rows_as_dicts(conn: Connection) -> None:
    conn.row_factory = dict_row


def broken(conn: Connection) -> None:
    conn.close()


@pytest.mark.parametrize(
    "dirty",
    [
        lambda conn: conn.execute("listen somewhere"),
        lambda conn: conn.execute("select pg_advisory_lock(1)"),
        lambda conn: conn.execute("create temp table t (n integer)"),
        lambda conn: conn.execute("prepare q as select 1"),
        lambda conn: conn.execute("set role pg_monitor"),
        rows_as_dicts,
        broken,
    ],
)
def test_a_changed_connection_is_not_given_back(
    engine: Engine, dirty: Callable[[Connection], object]
) -> None:
    mp = Milepost(engine=engine)
    with mp.connect() as conn:
        first = pid_of(conn)
        dirty(conn)
    assert pooled_pid(engine) != first


def test_settings_do_not_stay_in_the_pool(engine: Engine) -> None:
    mp = Milepost(engine=engine)
    with mp.connect() as conn:
        conn.execute("set app.tenant = 'one'")
        conn.execute("set statement_timeout = 1234")
    with engine.connect() as connection:
        shown = connection.execute(
            text("select current_setting('app.tenant', true), current_setting('statement_timeout')")
        )
        assert tuple(shown.one()) in {("", "0"), (None, "0")}


def test_settings_that_the_program_makes_on_connecting_stay(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def prepare(dbapi_connection: psycopg.Connection, _record: object) -> None:
        dbapi_connection.execute("set statement_timeout = 4321")
        dbapi_connection.commit()

    with Milepost(engine=engine).connect() as conn:
        assert conn.execute("show statement_timeout").fetchone() == ("4321ms",)
    with engine.connect() as connection:
        assert connection.execute(text("show statement_timeout")).scalar() == "4321ms"


def test_what_reads_for_long_has_a_connection_of_its_own(engine: Engine) -> None:
    mp = Milepost(engine=engine)
    with mp.reader() as reader, mp.connect() as conn:
        append(conn, Message("Placed", 1))
        assert [m.type for m in reader.messages()] == ["Placed"]


def test_a_pool_that_shares_its_connection_is_not_used(url: str) -> None:
    engine = create_engine(sqlalchemy_url(url), poolclass=StaticPool)
    mp = Milepost(engine=engine)
    with Session(engine) as session, session.begin():
        append(session, Message("Placed", 1))
        with mp.connect() as conn:
            assert pid_of(conn) != session.execute(text("select pg_backend_pid()")).scalar_one()
    engine.dispose()


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
def test_an_async_engine_is_used_for_its_url(url: str, driver: str) -> None:
    async def main() -> None:
        engine = create_async_engine(sqlalchemy_url(url, driver))
        mp = Milepost(engine=engine)
        async with AsyncSession(engine) as session, session.begin():
            await mp.append(session, Message("Placed", 1))
        await engine.dispose()
        assert [m.type for m in mp.read()] == ["Placed"]

    asyncio.run(main())
