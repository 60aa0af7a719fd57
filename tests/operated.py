"""A log with something of everything that operators look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from milepost import Cron, Job, Message, Milepost, RecordedMessage, Repeat, Retry
from milepost.db import Connection
from milepost.errors import HandlerFailed
from milepost.queue.schedules import Schedule, register
from milepost.sql import LogOrder
from tests.server import TestServer

BIG = 2**63 + 1  # no float, and no number of JavaScript, has this value


def busy(mp: Milepost, conn: Connection) -> None:
    """A processor that is stuck, one that parks, one with segments that is behind; a pipeline with
    a kept version; jobs, of which two are dead; schedules."""
    unscheduled(mp, conn)
    schedules(mp, conn)


def unscheduled(mp: Milepost, conn: Connection) -> None:
    """What looks the same some minutes later."""
    messages(mp, conn)
    pipeline(conn)
    jobs(mp, conn)


def schedules(mp: Milepost, conn: Connection) -> None:
    register(conn, Schedule("nightly", Repeat(timedelta(days=1)), Job("reports")), mp.schema)
    register(conn, Schedule("weekly", Cron("0 3 * * 1"), Job("reports")), mp.schema)


def messages(mp: Milepost, conn: Connection) -> None:
    good = Message("Good", {"amount": BIG}, key="good")
    mp.append(conn, good, Message("Bad", {"amount": BIG}, key="bad"), Message("Bad", {}, key="bad"))

    def refuse_bad(messages: list[RecordedMessage], tx: Connection) -> None:
        if any(message.type == "Bad" for message in messages):
            raise ValueError("a bad one")

    with pytest.raises(HandlerFailed):
        mp.processor("stuck", retry=Retry(limit=0))(refuse_bad).run("caught_up")
    mp.processor("parking", retry=Retry(limit=0), on_failure="park")(refuse_bad).run("caught_up")
    mp.processor("cut", types=["Good"], segments=2)(refuse_bad).run("caught_up")
    mp.append(conn, good)


def pipeline(conn: Connection) -> None:
    """As its driver would leave it: version 2 is shown, version 1 is kept, version 3 is begun."""
    conn.execute("create schema reports")
    for version in (1, 2, 3):
        conn.execute(f"create table reports.revenue__v{version} (day date, amount numeric)")
    conn.execute("create view reports.revenue as select * from reports.revenue__v2")
    conn.execute(
        "insert into milepost.pipelines (name, version, code_version, sink, target_schema, target,"
        " target_table, is_active, built_at, state, owner, batches, rows, rows_per_second,"
        " phases_ms, reported_at, spark_page)"
        " select 'revenue', v, 1, 'upsert reports.revenue', 'reports', 'revenue',"
        " 'revenue__v' || v, v = 2, case when v < 3 then now() end, 'running', 'host:1', 12, 3400,"
        """ 250, '{"read": 12.5, "stage": 120.4, "merge": 33.3, "spark.addBatch": 200}',"""
        " now() + interval '1 hour', 'http://localhost:4040'"
        " from generate_series(1, 3) as v"
    )
    conn.execute(
        "insert into milepost.checkpoints (processor, version, segment, transaction_id, position,"
        " epoch, owner) select 'revenue', v, 0, 0, 1, 1, 'host:1' from generate_series(1, 3) as v"
    )


def jobs(mp: Milepost, conn: Connection) -> None:
    """Of the channel `limited`: two dead ones and four that are ready. Of `emails`: one that is
    scheduled, and one that waits for it."""
    mp.set_channel("limited", max_concurrency=2)
    mp.put(conn, *(Job("limited", {"n": BIG + n}, max_attempts=1) for n in range(6)))
    conn.execute("select milepost.take(2, interval '1 hour', 'limited')")
    conn.execute(
        "select milepost.fail(array_agg(id), array_agg(attempt), errors =>"
        " array_agg('TimeoutError: no answer'::text)) from milepost.jobs where status = 'running'"
    )
    (first,) = mp.put(conn, Job("emails", {"to": "ann"}, run_at=timedelta(hours=1)))
    mp.put(conn, Job("emails", {"to": "bob"}, unique_key="bob", after=[first]))


@pytest.fixture(scope="session")
def busy_template(
    server: TestServer, template: Callable[[LogOrder], str]
) -> Iterator[Callable[[], str]]:
    """The name of a database that is busy but for the schedules, made at the first use: to run its
    processors takes longer than to copy what they have left."""
    made: list[str] = []

    def named() -> str:
        if not made:
            name = server.create_database("template_busy", template=template("append"))
            mp = Milepost(server.url(name))
            with mp.connect() as conn:
                unscheduled(mp, conn)
            server.make_template(name, mp.schema)
            made.append(name)
        return made[0]

    yield named
    for name in made:
        server.drop_database(name)


@pytest.fixture
def busy_url(server: TestServer, busy_template: Callable[[], str]) -> Iterator[str]:
    """A copy for this test alone."""
    name = server.create_database("test", template=busy_template())
    yield server.url(name)
    server.drop_database(name)


def end_whoever_pauses(conn: Connection) -> None:
    """As if the server ended while a channel is paused."""
    conn.execute(
        """create function public.end_session() returns trigger language plpgsql as $$
        begin perform pg_terminate_backend(pg_backend_pid()); return new; end $$;
        create trigger ending before insert or update on milepost.channels
        for each row execute function public.end_session()"""
    )
