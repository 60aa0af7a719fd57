"""Modes that do not fit are refused in words that say what to do; one that fits goes unnoticed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from psycopg.conninfo import conninfo_to_dict

from milepost import Job, Message, Milepost, RecordedMessage, TakenJob
from milepost.db import Connection
from milepost.errors import UnfitPooler, UnsafeIsolation
from milepost.sql import LogOrder
from tests.integration.queue.worker.working import working
from tests.pgbouncer import PgBouncer, pgbouncer
from tests.server import TestServer
from tests.waiting import wait_until


@pytest.fixture
def order() -> LogOrder:
    return "append"


def read_again_and_again(mp: Milepost) -> None:
    with mp.reader() as reader:
        for _ in range(100):
            reader.read()


def test_a_url_that_does_not_tell_of_transaction_mode_is_answered_with_what_to_add(
    unmarked_url: str,
) -> None:
    with pytest.raises(UnfitPooler, match=r"without our prepared statements.*\?pgbouncer=true"):
        read_again_and_again(Milepost(unmarked_url))


def test_another_isolation_by_default_is_refused(
    bouncer: PgBouncer, url: str, conn: Connection
) -> None:
    name = conn.info.dbname
    conn.execute(f"alter database {name} set default_transaction_isolation = serializable")
    mp = Milepost(f"{bouncer.url(name)} pgbouncer=true")
    with pytest.raises(UnsafeIsolation, match="Read in READ COMMITTED"):
        list(mp.read())


def of_mode(server: TestServer, url: str, mode: str) -> Iterator[str]:
    with pgbouncer(server, mode, sessions=10) as through:
        yield through.url(str(conninfo_to_dict(url)["dbname"]))


@pytest.fixture
def statement_url(server: TestServer, url: str) -> Iterator[str]:
    yield from of_mode(server, url, "statement")


@pytest.fixture
def session_url(server: TestServer, url: str) -> Iterator[str]:
    yield from of_mode(server, url, "session")


@pytest.mark.parametrize("suffix", ["", " pgbouncer=true"])
def test_statement_mode_is_refused(statement_url: str, suffix: str, conn: Connection) -> None:
    mp = Milepost(statement_url + suffix)

    @mp.worker("emails")
    def send(job: TakenJob) -> None: ...

    @mp.processor("keep")
    def keep(messages: list[RecordedMessage], tx: Connection) -> None: ...

    for attempt in (
        lambda: list(mp.read()),
        lambda: send.run(until="drained"),
        lambda: keep.run(until="caught_up"),
    ):
        with pytest.raises(UnfitPooler, match=r"statement mode.*pool_mode = transaction"):
            attempt()


def test_session_mode_needs_nothing(session_url: str, mp: Milepost, conn: Connection) -> None:
    """Reader and worker are woken: they look by themselves once an hour only."""
    through = Milepost(session_url)
    seen: list[int] = []

    @through.worker("emails", poll_seconds=3600)
    def send(job: TakenJob) -> None:
        seen.append(job.content)

    read_again_and_again(through)
    with through.reader() as reader, working(send):
        batches = reader.batches(poll_seconds=3600)
        next(batches)
        mp.append(conn, Message("Counted", {"n": 1}))
        wait_until(lambda: [message.data["n"] for message in next(batches).messages] == [1])
        for number in range(5):
            mp.put(conn, Job("emails", number))
            wait_until(lambda n=number: len(seen) == n + 1)  # type: ignore[misc]
