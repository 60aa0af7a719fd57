"""How a Session of a handler is made, and what it leaves on the connection: nothing."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest
from psycopg.rows import dict_row
from sqlalchemy import JSON, create_engine, literal, select, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import async_sessionmaker
from sqlalchemy.orm import Session, sessionmaker

from milepost import db
from milepost.binding import Binding, binding_of
from milepost.db import Connection
from milepost.sql import LogOrder
from tests.orm import SessionLocal, Total, make_tables, totals

ADDRESS = "select '10.0.0.1'::inet, '{\"a\": 1}'::json"
SILENT = """
import sys
import milepost, milepost.binding, milepost.cli
assert not {"sqlalchemy", "sqlmodel", "django"} & sys.modules.keys()
"""
# SQLAlchemy 2.1 installs greenlet only for those who ask for its asyncio.
WITHOUT_GREENLET = """
import sys
sys.modules["greenlet"] = None  # an import of it fails
from milepost import db
from milepost.binding import binding_of
from sqlalchemy import text
from sqlalchemy.orm import sessionmaker
with db.connect(sys.argv[1]) as conn, conn.transaction():
    with binding_of(sessionmaker()).bound(conn) as session:
        assert session.scalar(text("select 1")) == 1
"""


@pytest.fixture
def order() -> LogOrder:
    return "append"


def state_of(conn: Connection) -> dict[str, Any]:
    """What a driver above could change of a connection."""
    return {
        "dumpers": {form: dict(known) for form, known in conn.adapters._dumpers.items()},
        "loaders": [dict(known) for known in conn.adapters._loaders],
        "types": list(conn.adapters.types),
        "notices": list(conn._notice_handlers),
        "autocommit": conn.autocommit,
        "isolation": conn.isolation_level,
        "row_factory": conn.row_factory,
        "prepare": conn.prepare_threshold,
        "settings": conn.cursor(row_factory=dict_row)
        .execute("select name, setting from pg_settings where source = 'session' order by name")
        .fetchall(),
    }


def test_nothing_is_left_on_the_connection(conn: Connection) -> None:
    """Also where the engine of the factory converts in its own way, and the database has a type
    hstore, which SQLAlchemy registers on its connections."""
    conn.execute("create domain hstore as text")
    engine = create_engine(
        "postgresql+psycopg://",
        json_deserializer=lambda _: "own",
        json_serializer=lambda _: '"own"',
        native_inet_types=False,
    )
    binding = binding_of(sessionmaker(engine))
    before, found = state_of(conn), []
    for _ in range(2):
        with conn.transaction(), binding.bound(conn) as session:
            found.append(session.execute(text(ADDRESS)).one())
            found.append(session.scalar(select(literal({"b": 2}, JSON))))
    assert found == [("10.0.0.1", "own"), "own"] * 2
    assert state_of(conn) == before
    address, content = db.one(conn.execute(ADDRESS).fetchone())
    assert (type(address).__name__, content) == ("IPv4Address", {"a": 1})


def test_the_schemas_of_the_engine_are_the_session_s(conn: Connection) -> None:
    conn.execute("create schema tenant")
    conn.execute("create table tenant.totals (key text primary key, total bigint)")
    engine = create_engine("postgresql+psycopg://").execution_options(
        schema_translate_map={None: "tenant"}
    )
    with conn.transaction(), binding_of(sessionmaker(engine)).bound(conn) as session:
        session.add(Total(key="a", total=1))
    assert conn.execute("select key, total from tenant.totals").fetchall() == [("a", 1)]


def test_the_engine_may_keep_parameters_out_of_errors(conn: Connection) -> None:
    make_tables(conn)
    engine = create_engine("postgresql+psycopg://", hide_parameters=True)
    with (
        pytest.raises(IntegrityError) as caught,
        conn.transaction(),
        binding_of(sessionmaker(engine)).bound(conn) as session,
    ):
        session.add_all([Total(key="secret", total=n) for n in (1, 2)])
    assert "hide_parameters=True" in str(caught.value)


def test_the_rows_of_the_connection_may_be_of_another_kind(conn: Connection) -> None:
    """As of a connection that its owner passes to a reset."""
    make_tables(conn)
    conn.execute("insert into totals values ('a', 1)")
    conn.row_factory = dict_row
    with conn.transaction(), binding_of(SessionLocal).bound(conn) as session:
        assert session.get_one(Total, "a").total == 1


def test_the_driver_s_connection_is_the_one_of_the_transaction(url: str, conn: Connection) -> None:
    """Whoever has the Session can have psycopg's connection, as `append` does."""
    binding = binding_of(SessionLocal)
    with conn.transaction(), binding.bound(conn) as session:
        assert session.connection().connection.driver_connection is conn

    async def check() -> None:
        async with (
            await db.connect_async(url) as own,
            own.transaction(),
            binding.bound_async(own) as session,
        ):
            raw = await (await session.connection()).get_raw_connection()
            assert raw.driver_connection is own

    asyncio.run(check())


def test_sessions_in_several_event_loops(url: str, conn: Connection) -> None:
    """As many instances in one process have; an engine's locks belong to one loop."""
    make_tables(conn)
    binding = binding_of(async_sessionmaker())

    async def add(key: str) -> None:
        async with (
            await db.connect_async(url) as own,
            own.transaction(),
            binding.bound_async(own) as session,
        ):
            session.add(Total(key=key, total=1))

    async def add_some(prefix: str) -> None:
        await asyncio.gather(*(add(f"{prefix}-{n}") for n in range(5)))

    for prefix in "ab":
        asyncio.run(add_some(prefix))
    assert len(totals(conn)) == 10


def test_nothing_of_an_orm_is_imported_for_those_who_use_none() -> None:
    subprocess.run([sys.executable, "-c", SILENT], check=True)


def test_sessions_need_no_greenlet(url: str) -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_GREENLET, url], check=True)


def test_what_makes_no_sessions_is_refused() -> None:
    for wrong in (Session(), "SessionLocal", 5):
        with pytest.raises(TypeError, match="expected what makes Sessions"):
            binding_of(wrong)


def test_a_binding_is_taken_as_it_is() -> None:
    binding = binding_of(SessionLocal)
    assert isinstance(binding, Binding)
    assert binding_of(binding) is binding
