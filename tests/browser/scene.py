"""A shop in trouble, for the screenshots: what an operator would find, while real processors and
workers run."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from threading import Event, Thread

import psycopg

from milepost import Cron, Job, Message, Milepost, Repeat, append
from milepost.db import Connection
from milepost.queue import pause_channel
from milepost.queue.schedules import Schedule, register

TRACE = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
RANGES_MS = (
    ("prepare", 8, 20), ("wait", 1, 30), ("stage", 60, 220), ("merge", 20, 80), ("sweep", 1, 6),
)  # fmt: skip
KEYS = [f"order-{number}" for number in range(1000, 1400)]


def write(mp: Milepost, conn: Connection, choose: random.Random) -> None:
    """One second of the shop."""
    for _ in range(choose.randint(8, 20)):
        key = choose.choice(KEYS)
        data = {"order": key, "total": choose.randint(500, 90_000), "customer": 2**63 + 1}
        with conn.transaction():
            mp.append(conn, Message("OrderPlaced", data, topic="orders", key=key, metadata=TRACE))
            mp.put(conn, Job("mails", {"order": key}))
            if choose.random() < 0.4:
                mp.append(conn, Message("PaymentReceived", data, topic="payments", key=key))
                mp.put(conn, Job("invoices", {"order": key}))
            if choose.random() < 0.02:
                mp.append(conn, Message("OrderImported", data, topic="imports", key=key))


def furnish(mp: Milepost, conn: Connection) -> None:
    """What does not move by itself."""
    mp.set_channel("invoices", max_concurrency=2)
    mp.set_channel("tenant-*", max_concurrency=2, max_concurrency_total=20)
    for number in range(1, 9):
        mp.put(conn, *(Job(f"tenant-{number}", {"n": n}) for n in range(number * 3)))
    pause_channel(conn, "tenant-3")
    mp.put(conn, *(Job("exports", {"n": n}, max_attempts=1) for n in range(6)))
    conn.execute("select milepost.take(6, interval '1 hour', 'exports')")
    conn.execute(
        "select milepost.fail(array_agg(id), array_agg(attempt), errors =>"
        " array_agg('TimeoutError: s3.internal did not answer within 30 s'::text))"
        " from milepost.jobs where status = 'running' and channel = 'exports'"
    )
    (first,) = mp.put(conn, Job("reports", {"day": "2026-11-18"}, run_at=timedelta(hours=1)))
    mp.put(conn, Job("reports", {"week": 47}, unique_key="week-47", after=[first]))
    register(conn, Schedule("nightly-report", Cron("0 3 * * *"), Job("reports")), mp.schema)
    register(
        conn, Schedule("refresh-rates", Repeat(timedelta(minutes=15)), Job("rates")), mp.schema
    )
    pipelines(conn)


def pipelines(conn: Connection) -> None:
    """As their drivers would leave them: one with a kept version and a rebuild, one that fails."""
    conn.execute("create schema reports")
    for version in (1, 2, 3):
        conn.execute(
            f"create table reports.revenue__v{version} (day date, amount numeric)".encode()
        )
    conn.execute("create view reports.revenue as select * from reports.revenue__v2")
    conn.execute(
        "insert into milepost.pipelines (name, version, code_version, sink, target_schema, target,"
        " target_table, is_active, built_at, state, owner, batches, rows, rows_per_second,"
        " batches_per_second, phases_ms, reported_at, spark_page, topics)"
        " select 'revenue', v, 1 + v / 3, 'Upsert reports.revenue', 'reports', 'revenue',"
        " 'revenue__v' || v, v = 2, case when v < 3 then now() - interval '3 days' * (3 - v) end,"
        " 'running', 'spark-1:4711', 1200 * v, 340000 * v, 250, 1,"
        """ '{"prepare": 12.5, "wait": 3.1, "stage": 120.4, "merge": 33.3, "sweep": 2.5}'::jsonb,"""
        " now() + interval '1 hour', 'http://localhost:4040', '{orders}'::text[]"
        " from generate_series(1, 3) as v"
        " union all select 'customers', 1, 1, 'History public.customers', 'public', 'customers',"
        " 'customers__v1', true, now() - interval '9 days', 'failed', 'spark-1:4711', 40, 51000, 0,"
        """ 0, '{"prepare": 10, "stage": 90, "merge": 20}'::jsonb, now(), null, null::text[]"""
    )
    conn.execute(
        "update milepost.pipelines set last_error = 'UnknownColumn: the function of customers"
        " uses a column totl, which the messages do not have. It has id, name, total.',"
        " last_error_at = now() where name = 'customers'"
    )
    conn.execute(
        "insert into milepost.checkpoints (processor, version, segment, transaction_id, position,"
        " epoch, owner) select 'revenue', v, 0, 0, 20, 1, 'spark-1:4711'"
        " from generate_series(1, 3) as v"
        " union all select 'customers', 1, 0, 0, 5, 1, 'spark-1:4711'"
    )


def work_on(conn: Connection, choose: random.Random) -> None:
    """The driver of the pipeline writes a batch, and its rebuild a range."""
    phases = ", ".join(
        f'"{name}": {choose.uniform(low, high):.1f}' for name, low, high in RANGES_MS
    )
    conn.execute(
        "update milepost.pipelines set phases_ms = %s, batches = batches + 1, rows = rows + 250,"
        " reported_at = now() where name = 'revenue' and version <> 1",
        ["{" + phases + "}"],
    )
    conn.execute(
        "update milepost.checkpoints c set position = case when version = 2"
        " then greatest(top.newest - 9, position) else position + 20 end, updated_at = now()"
        " from (select max(position) as newest from milepost.messages) as top"
        " where processor = 'revenue' and version <> 1 and top.newest is not null"
    )


@contextmanager
def shop(url: str) -> Iterator[Milepost]:
    """Two processes of the shop, a writer, and a script that forgot to commit."""
    mp = Milepost(url)
    end, choose = Event(), random.Random(7)
    with ExitStack() as stack:
        conn = stack.enter_context(mp.connect())
        furnish(mp, conn)
        for _ in range(60):
            write(mp, conn, choose)
        for _ in range(2):
            stack.enter_context(_process(url))
        writer = Thread(target=_write_on, args=(url, end, choose), name="writer")
        writer.start()
        stack.callback(writer.join)
        stack.callback(end.set)
        yield mp


@contextmanager
def forgotten(url: str) -> Iterator[None]:
    """A transaction that has appended and stays open: it holds the horizon."""
    with psycopg.connect(url, application_name="import-script") as conn:
        append(conn, Message("OrderImported", {"order": "order-1"}, topic="imports"))
        yield
        conn.rollback()


@contextmanager
def _process(url: str) -> Iterator[None]:
    program = Path(sys.executable).with_name("milepost")
    command = [str(program), "run", "tests.browser.shop:mp"]
    with subprocess.Popen(
        command, env=os.environ | {"MILEPOST_URL": url}, stderr=subprocess.DEVNULL
    ) as started:
        try:
            yield
        finally:
            started.terminate()


def _write_on(url: str, end: Event, choose: random.Random) -> None:
    mp = Milepost(url)
    with mp.connect() as conn:
        while not end.wait(1.0):
            write(mp, conn, choose)
            work_on(conn, choose)
