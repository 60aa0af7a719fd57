"""A PgBouncer in transaction mode for these tests, and the database of each test through it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from milepost import Milepost, db
from milepost.db import Connection
from tests.pgbouncer import SESSIONS, PgBouncer, pgbouncer
from tests.server import TestServer

# Nothing may be left in a session that the next client gets, but what PgBouncer sets itself and
# what the log's trigger knows of the session's database, whoever asks.
TRACES = """
    select 'prepared', name from pg_prepared_statements
    union all
    select 'listening', channel from pg_listening_channels() as channel
    union all
    select 'locked', objid::text from pg_locks
    where locktype = 'advisory' and pid = pg_backend_pid()
    union all
    select 'set', name from pg_settings
    where source = 'session' and name not like 'milepost.checked\\_%' and name not in (
      'application_name', 'client_encoding', 'DateStyle', 'TimeZone', 'standard_conforming_strings'
    )
"""


@pytest.fixture(scope="package")
def bouncer(server: TestServer) -> Iterator[PgBouncer]:
    with pgbouncer(server, "transaction") as through:
        yield through


@pytest.fixture
def unmarked_url(bouncer: PgBouncer, url: str) -> str:
    """Of the test's database, without a word about PgBouncer."""
    through = bouncer.url(str(conninfo_to_dict(url)["dbname"]))
    open_all_sessions(through)
    return through


@pytest.fixture
def pooled_url(unmarked_url: str) -> str:
    return f"{unmarked_url} pgbouncer=true"


@pytest.fixture
def pooled(pooled_url: str) -> Milepost:
    return Milepost(pooled_url)


@pytest.fixture
def pooled_conn(pooled: Milepost) -> Iterator[Connection]:
    with pooled.connect() as conn:
        yield conn


@pytest.fixture
def leaves_no_trace(pooled_url: str) -> Iterator[None]:
    """Whatever the test does through PgBouncer leaves nothing in any session of the server's."""
    yield
    with db.connect(pooled_url) as conn:
        for _ in range(2 * SESSIONS):
            assert conn.execute(TRACES).fetchall() == []


def open_all_sessions(url: str) -> None:
    """PgBouncer opens another session only when all that it has are in use."""
    with ExitStack() as stack:
        for _ in range(SESSIONS):
            conn = psycopg.connect(url, autocommit=True, prepare_threshold=None)
            stack.enter_context(conn)
            stack.enter_context(conn.transaction())
            conn.execute("select")
